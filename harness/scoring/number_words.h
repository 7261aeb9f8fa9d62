// Numbers spelt out in English, read as Whisper's normaliser reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// The words with a space between them, numbers among them as digits: "one oh one" as 101, "twenty
/// first" as 21st, "two hundred and five" as 205, "five dollars" as $5, "ten percent" as 10%. A
/// number with a point stays text, and one that follows another is put behind its digits where it
/// cannot be added.
std::u32string read_numbers(const std::vector<std::u32string>& words);

/// Whether the word counts something without being an ordinal or a plural: "oh", "five", "hundred".
bool is_number_word(std::u32string_view word);

}  // namespace rtfx
