// Text normalisation: named, versioned rules that turn text into the words that are scored. Name
// and version belong to every WER, since rules change figures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

struct Normalizer {
  std::string name;
  int version = 1;
  std::vector<std::string> (*words)(std::string_view utf8_text) = nullptr;
};

/// "none": split on ASCII white space.
/// "basic_english": Unicode NFKC, lower case. Letters and digits with their combining marks
/// (category M), the apostrophe (') and, between these, U+200C and U+200D stay. U+02BC, and U+2019
/// between letters, become the apostrophe. Other default ignorable code points, such as soft
/// hyphens, vanish. Anything else separates words. Version 1 separated words at most of these.
/// "unicode_words": the words of basic_english, divided at the default boundaries of Unicode's UAX
/// #29, which need no dictionary. Each ideograph is a word, and so is each letter of Hiragana,
/// Thai, Lao, Khmer and Burmese with its marks. A run of Katakana is one. Such a rate is known as
/// mixed error rate: of Chinese text it is the character error rate. "whisper_english":
/// whisper_english().
const std::vector<Normalizer>& normalizers();
std::vector<std::string> normalizer_names();

/// Throws UserError at `where` for an unknown name.
const Normalizer& find_normalizer(std::string_view name, std::string_view where);

/// The English normaliser that was published with Whisper (Radford et al. 2022, appendix C) and
/// that the rules of the Open ASR Leaderboard come from. Returns the words of what the Python
/// package whisper-normalizer 0.1.15 makes of the text. Drops what stands in brackets and
/// hesitations (uh, um, mm, hmm, mhm, mmm), writes contractions and titles out, numbers as digits,
/// British spellings as American ones; drops marks and symbols.
std::vector<std::string> whisper_english(std::string_view utf8_text);

}  // namespace rtfx
