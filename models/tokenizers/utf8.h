// Code points of UTF-8 text.
#pragma once

#include <unicode/utf8.h>

#include <cstdint>
#include <string_view>

namespace rtfx {

/// The code point at byte `at` (below the size), which moves behind it; negative where the bytes
/// there are no UTF-8.
inline int32_t next_code_point(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  UChar32 c = 0;
  U8_NEXT(bytes, at, size, c);  // NOLINT(bugprone-inc-dec-in-conditions): how ICU writes it
  return c;
}

inline bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (next_code_point(text, at) < 0) return false;
  }
  return true;
}

}  // namespace rtfx
