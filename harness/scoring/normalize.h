// Text normalisation: named and versioned rules that turn text into the words that are scored.
// Every WER has the name and the version, since rules change figures.
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

/// The normalisers:
///
/// "none" splits at ASCII white space.
///
/// "basic_english" takes Unicode NFKC in lower case. It keeps letters and digits with their
/// combining marks (category M), the apostrophe ('), and U+200C and U+200D between these. U+02BC
/// becomes the apostrophe, and so does U+2019 between letters. Other default ignorable code points,
/// such as soft hyphens, are deleted. Anything else separates words. Version 1 separated words at
/// most of these.
///
/// "unicode_words" takes the words of basic_english, and divides them at the default boundaries of
/// Unicode's UAX #29, which need no dictionary. Each ideograph is a word, and so is each letter of
/// Hiragana, Thai, Lao, Khmer and Burmese with its marks. A run of Katakana is one word. This gives
/// the rate known as mixed error rate; for Chinese text it is the character error rate.
///
/// "whisper_english" is whisper_english().
const std::vector<Normalizer>& normalizers();
std::vector<std::string> normalizer_names();

/// Throws UserError at `where` for an unknown name.
const Normalizer& find_normalizer(std::string_view name, std::string_view where);

/// Returns the words that the Python package whisper-normalizer 0.1.15 makes of the text. This is
/// the English normaliser that was published with Whisper (Radford et al. 2022, appendix C). The
/// rules of the Open ASR Leaderboard come from it.
///
/// It drops text in brackets and hesitations (uh, um, mm, hmm, mhm, mmm). It writes contractions
/// and titles out, numbers as digits, and British spellings as American ones. It drops marks and
/// symbols.
std::vector<std::string> whisper_english(std::string_view utf8_text);

}  // namespace rtfx
