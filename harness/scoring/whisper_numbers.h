// Writes numbers as Whisper's English normaliser does: "twenty one dollars and five cents" becomes
// "$21.05".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rtfx {

// Computes with numbers of any length. A number is its decimal digits, highest first, without
// leading zeros except for "0" itself.

std::u32string decimal(uint64_t value);
/// Returns whether the number is a multiple of ten to the power of `zeros`.
bool ends_in_zeros(std::u32string_view digits, size_t zeros);
std::u32string sum(std::u32string_view a, std::u32string_view b);
/// Applies "thousand" to a number such as 2005: its last three digits count as thousands, 2000 +
/// 5000.
std::u32string with_last_thousand_times(std::u32string_view digits, size_t zeros);
/// Returns `numeral` times ten to the power of `zeros`. A numeral is like "12", "1.5", ".5" or
/// "2.", in the digits of any script. Returns none if it is no such numeral, or if the product is
/// not whole.
std::optional<std::u32string> times_power_of_ten(std::u32string_view numeral, size_t zeros);

/// `text` must be in lower case and decomposed, without symbols other than .%$¢€£. Words of numbers
/// become digits. Currencies become their sign in front, and "percent" becomes a % behind. "one"
/// alone stays a word. White space becomes single spaces. Numbers may have any length.
std::u32string whisper_numbers(std::u32string_view text);

}  // namespace rtfx
