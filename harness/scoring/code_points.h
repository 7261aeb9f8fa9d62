// Text as code points, and the classes of characters that Python's `str` and `re` know, which
// published normalisers are written with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// Bytes that are not UTF-8 become U+FFFD.
std::u32string to_code_points(std::string_view utf8);
std::string to_utf8(std::u32string_view text);

/// Unicode's lower case without a language's own rules, as `str.lower()`.
std::u32string lower_case(std::u32string_view text);
/// Compatibility decomposition, as `unicodedata.normalize("NFKD", text)`.
std::u32string decomposed(std::u32string_view text);

/// Whether \s of Python's `re`, and `str.split()`, treat it as white space.
bool is_space(char32_t c);
/// Whether \w of Python's `re` matches it: letters, numbers of every kind, the underscore.
bool is_word_character(char32_t c);
/// Whether \d of Python's `re` matches it: decimal digits of every script. `digit_value` gives
/// 0..9.
bool is_decimal_digit(char32_t c);
int digit_value(char32_t c);
/// 0-9 alone.
constexpr bool is_ascii_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
/// Unicode category Mn: marks that take no space of their own.
bool is_nonspacing_mark(char32_t c);
/// Unicode categories M, S and P: marks, symbols, punctuation.
bool is_symbol(char32_t c);

/// \b of `re` between text[at - 1] and text[at].
bool is_word_boundary(std::u32string_view text, size_t at);

/// The parts between white space, as `str.split()`.
std::vector<std::u32string> split_at_space(std::u32string_view text);

}  // namespace rtfx
