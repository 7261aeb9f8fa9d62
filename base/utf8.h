// The code points of a text in UTF-8, and whether a text is UTF-8.
#pragma once

#include <unicode/utf8.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rtfx {

/// Returns the code point at byte `at`, which must be below the size, and moves `at` past it. The
/// result is negative where the bytes there are not UTF-8.
inline int32_t next_code_point(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  UChar32 c = 0;
  U8_NEXT(bytes, at, size, c);  // NOLINT(bugprone-inc-dec-in-conditions): how ICU writes it
  return c;
}

/// Returns the number of bytes of `text` before the first byte that is not valid UTF-8, or its
/// size. Overlong forms and surrogates are not valid.
size_t valid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) { return valid_utf8(text) == text.size(); }

/// Throws UserError(where) for text that is not UTF-8.
void require_utf8(std::string_view text, std::string_view where);

}  // namespace rtfx
