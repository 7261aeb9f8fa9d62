// Text as code points, and the classes of characters of Python's `str` and `re`, which published
// normalisers use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// Replaces bytes that are not UTF-8 by U+FFFD.
std::u32string to_code_points(std::string_view utf8);
std::string to_utf8(std::u32string_view text);

/// Returns Unicode's lower case as `str.lower()` does, without rules of single languages.
std::u32string lower_case(std::u32string_view text);
/// Returns the compatibility decomposition, as `unicodedata.normalize("NFKD", text)` does.
std::u32string decomposed(std::u32string_view text);

/// Returns whether the character is white space for \s of Python's `re` and for `str.split()`.
bool is_space(char32_t c);
/// Returns whether \w of Python's `re` matches it: letters, numbers of every kind, and the
/// underscore.
bool is_word_character(char32_t c);
/// Returns whether \d of Python's `re` matches it: decimal digits of every script. Sets
/// `digit_value` to 0..9.
bool is_decimal_digit(char32_t c);
int digit_value(char32_t c);
/// Returns whether the character is one of 0-9.
constexpr bool is_ascii_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
/// Returns whether it is in Unicode's category Mn: marks that take no space of their own.
bool is_nonspacing_mark(char32_t c);
/// Returns whether it is in Unicode's categories M, S or P: marks, symbols, punctuation.
bool is_symbol(char32_t c);

/// Returns whether \b of `re` matches between text[at - 1] and text[at].
bool is_word_boundary(std::u32string_view text, size_t at);

/// Splits the text at white space, as `str.split()` does.
std::vector<std::u32string> split_at_space(std::u32string_view text);

}  // namespace rtfx
