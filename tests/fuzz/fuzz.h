// Every fuzz target reads its bytes, or refuses them by a UserError. Any other exception ends the
// program, which libFuzzer reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "tests/mutations/mutator.h"

namespace rtfx {

template <class Use>
int read_or_refuse(const uint8_t* data, size_t size, const Use& use) {
  try {
    use(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const UserError&) {
  }
  return 0;
}

/// Writes the SHA-256 of the bytes from `body` on to `checksum`, because no fuzzer would guess it.
inline void repair_checksum(std::string& bytes, size_t checksum, size_t body) {
  if (bytes.size() < body) return;
  const std::string digest = sha256(std::string_view(bytes).substr(body));
  std::memcpy(bytes.data() + checksum, digest.data(), digest.size());
}

}  // namespace rtfx

/// Defines a target with the body that follows, whose input is `bytes`.
#define RTFX_FUZZ_TARGET(bytes)                                             \
  static void use_bytes(std::string bytes);                                 \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    return rtfx::read_or_refuse(data, size, &use_bytes);                    \
  }                                                                         \
  static void use_bytes(std::string bytes)
