#include "harness/machine/wait_policy.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace rtfx {
namespace {

constexpr const char* kVariables[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
constexpr const char* kOfShells[] = {"_", "OLDPWD", "SHLVL"};

// The OpenMP run-time reads its variables when it is loaded, before main() and, in LibTorch's
// company, before every constructor of ours. Only functions in .preinit_array come earlier: all
// libraries are in memory then, and none has begun, the C library included, which is why setenv()
// would be forgotten and sanitizers are not ready.
#define RTFX_BEFORE_LIBRARIES __attribute__((no_sanitize("address", "undefined")))

RTFX_BEFORE_LIBRARIES bool names(const char* entry, const char* variable) {
  while (*variable != '\0' && *entry == *variable) {
    ++entry;
    ++variable;
  }
  return *variable == '\0' && *entry == '=';
}

RTFX_BEFORE_LIBRARIES char** find(char** environment, const char* variable) {
  while (*environment != nullptr && !names(*environment, variable)) ++environment;
  return environment;
}

}  // namespace

/// The array has no room for one more. What only a shell has a use for gives its place; without any
/// such variable the program begins anew, which takes 45 ms.
RTFX_BEFORE_LIBRARIES void make_waits_passive(int, char** arguments, char** environment) {
  static char passive[] = "OMP_WAIT_POLICY=passive";
  for (const char* variable : kVariables) {
    if (*find(environment, variable) != nullptr) return;
  }
  for (const char* variable : kOfShells) {
    if (char** entry = find(environment, variable); *entry != nullptr) {
      *entry = passive;
      return;
    }
  }
  size_t count = 0;
  while (environment[count] != nullptr) ++count;
  auto** longer = static_cast<char**>(__builtin_alloca((count + 2) * sizeof(char*)));
  for (size_t i = 0; i < count; ++i) longer[i] = environment[i];
  longer[count] = passive;
  longer[count + 1] = nullptr;
  ::execve("/proc/self/exe", arguments, longer);  // where it fails, the run-time's own policy holds
}

std::string wait_policy() {
  std::string text;
  for (const char* variable : kVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    text += text.empty() ? "" : " ";
    std::string word = value;
    if (variable != kVariables[0]) {
      word = std::string(variable) + "=" + word;
    } else {
      std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    }
    text += word;
  }
  return text.empty() ? "default" : text;
}

}  // namespace rtfx
