// Splits text into words and fields, and refuses NUL characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// White space of ASCII.
inline constexpr std::string_view kAsciiSpace = " \t\n\v\f\r";

/// Returns the parts of `text` between any of the characters `separators`, as views of it. No part
/// is empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separators);

/// Throws UserError(where) for a text with a NUL, since the system would read a path only up to it.
void require_no_nul(std::string_view text, std::string_view where);

/// Returns the words of `text` with one space between them.
std::string single_spaced(std::string_view text);

}  // namespace rtfx
