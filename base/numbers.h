// Reads numbers that people or programs wrote as text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace rtfx {

/// Returns the number that `text` is. Returns nothing where a part of `text` is anything else, such
/// as a space or a leading '+', and for a number that `Number` cannot hold. `format` is the one of
/// std::from_chars(), such as the base of an integer. The locale does not matter.
template <class Number, class... Format>
std::optional<Number> parse_number(std::string_view text, Format... format) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, format...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace rtfx
