#include "harness/machine/sudden_end.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/nvtx.h"

namespace rtfx {

namespace {

/// Text that a signal handler can read at any moment.
class FixedText {
 public:
  void set(std::string_view text) {
    size_ = 0;
    std::copy_n(text.begin(), std::min(text.size(), room_.size()), room_.begin());
    size_ = std::min(text.size(), room_.size());
  }
  std::string_view view() const { return {room_.data(), size_}; }

 private:
  std::array<char, 1024> room_{};
  volatile size_t size_ = 0;
};

FixedText under_way, remedy;
pid_t owner = 0;  // a process that was forked since is not under watch

/// Calls only functions that a signal handler may call.
void report(std::string_view why) {
  const auto print = [](std::string_view text) {
    [[maybe_unused]] const ssize_t sent = ::write(STDERR_FILENO, text.data(), text.size());
  };
  if (::isatty(STDERR_FILENO) == 1) print("\r\033[K");  // a line of progress may stand there
  print("rtfx: error: ");
  print(under_way.view());
  if (!under_way.view().empty()) print(": ");
  print(why);
  if (!remedy.view().empty()) print("; ");
  print(remedy.view());
  print("\n");
}

bool is_under_way() { return !under_way.view().empty() && ::getpid() == owner; }

[[noreturn]] void end_process(int code) {
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

void refuse_exit() {
  if (!is_under_way()) return;
  std::fflush(nullptr);
  end_suddenly("the program was ended by exit()");
}

extern "C" void on_crash(int signal) {
  if (is_under_way()) {
    report(signal == SIGABRT   ? "the program aborted (signal 6)"
           : signal == SIGSEGV ? "the program crashed (signal 11, a wrong address)"
           : signal == SIGFPE  ? "the program crashed (signal 8, arithmetic)"
                               : "the program crashed (signal 4, no such instruction)");
  }
  std::raise(signal);  // with its default action, once this has returned
}

/// Weights and graphs are mapped files. If such a file was shortened, reading behind its end raises
/// SIGBUS. Writing to shared memory also does, if /dev/shm is full.
extern "C" void on_bus_error(int) {
  end_suddenly("a mapped file was shortened, or shared memory is full (signal 7)");
}

}  // namespace

void name_crashes() {
  std::signal(SIGBUS, on_bus_error);
#ifndef __SANITIZE_ADDRESS__
  static std::array<char, 1 << 14> own_stack;  // the usual stack may be the one that overflowed
  stack_t stack{};
  stack.ss_sp = own_stack.data();
  stack.ss_size = own_stack.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
#endif
}

void set_under_way(std::string_view what, std::string_view what_to_do) {
  if (owner == 0) {
    std::atexit(refuse_exit);
    std::at_quick_exit(refuse_exit);
  }
  owner = ::getpid();
  under_way.set(what);
  remedy.set(what_to_do);
}

UnderWayScope::UnderWayScope() : what_(under_way.view()), remedy_(remedy.view()) {}

UnderWayScope::~UnderWayScope() { set_under_way(what_, remedy_); }

void end_suddenly(std::string_view why) {
  report(why);
  end_process(kFailed);
}

Watchdog::Watchdog(std::function<void()> bark)
    : bark_(std::move(bark)), thread_([this] { wait(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::set(std::optional<double> seconds) {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
  if (seconds) {
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(*seconds));
  }
  changed_.notify_one();
}

void Watchdog::wait() {
  name_thread("rtfx watchdog");
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (const auto until = *deadline_; Clock::now() < until) {
      changed_.wait_until(lock, until);
    } else {
      deadline_.reset();
      bark_();
    }
  }
}

}  // namespace rtfx
/// Replaces _exit() of the C library, which runs no handler. Calls from plug-ins and libraries are
/// looked up in the program first.
extern "C" [[noreturn]] void _exit(int code) {  // NOLINT(bugprone-reserved-identifier)
  if (rtfx::is_under_way()) {
    rtfx::report("the program was ended by _exit()");
    code = rtfx::kFailed;
  }
  rtfx::end_process(code);
}
extern "C" [[noreturn]] void _Exit(int code) noexcept { ::_exit(code); }  // NOLINT

namespace rtfx {

namespace {

constexpr const char* kVariables[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
constexpr const char* kOfShells[] = {"_", "OLDPWD", "SHLVL"};

// The OpenMP run-time reads these variables when it is initialised. LibTorch brings it, so that is
// before all constructors of rtfx. Only functions in .preinit_array run earlier. All libraries are
// in memory at that time, but none is initialised, not even the C library. So setenv() would have
// no lasting effect, and sanitizers do not work yet.
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

/// The array `environment` has no room for another variable. So OMP_WAIT_POLICY takes the place of
/// one that only shells use. Without such a variable, the program executes itself again with a
/// longer array, which takes 45 ms.
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
