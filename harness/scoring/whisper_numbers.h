// Numbers as Whisper's English normaliser writes them: "twenty one dollars and five cents" becomes
// "$21.05".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rtfx {

// Numbers of any length are their decimal digits, highest first, without zeros in front ("0" itself
// excepted). These functions compute with them.

std::u32string decimal(uint64_t value);
/// Whether the number is a multiple of ten to the power of `zeros`.
bool ends_in_zeros(std::u32string_view digits, size_t zeros);
std::u32string sum(std::u32string_view a, std::u32string_view b);
/// Applies "thousand" to a number such as 2005: its last three digits count as thousands, 2000 +
/// 5000.
std::u32string with_last_thousand_times(std::u32string_view digits, size_t zeros);
/// Returns `numeral` times ten to the power of `zeros`. A numeral is like "12", "1.5", ".5" or
/// "2.", in the digits of any script. Returns none where it is no such numeral or the product is
/// not whole.
std::optional<std::u32string> times_power_of_ten(std::u32string_view numeral, size_t zeros);

/// `text`: lower case, decomposed, without symbols other than .%$¢€£. Words of numbers become
/// digits, currencies their sign in front, "percent" a % behind; "one" alone stays a word. White
/// space becomes single spaces. Numbers may have any length.
std::u32string whisper_numbers(std::u32string_view text);

}  // namespace rtfx
