#include "harness/scoring/normalize.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "harness/scoring/code_points.h"
#include "harness/scoring/whisper_numbers.h"
#include "harness/scoring/whisper_tables.h"  // generated from whisper_*.json and whisper_*.tsv

namespace rtfx {

namespace {

using Text = std::u32string;
using View = std::u32string_view;

/// Drops "<...>", "[...]", also with the brackets mixed, and "(...)" where it is not empty.
Text without_brackets(View text) {
  Text square, round;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool opens = text[i] == U'<' || text[i] == U'[';
    const size_t end = opens ? text.find_first_of(U">]", i + 1) : View::npos;
    if (end == View::npos)
      square += text[i];
    else
      i = end;
  }
  for (size_t i = 0; i < square.size(); ++i) {
    const size_t end = square[i] == U'(' ? square.find(U')', i + 1) : Text::npos;
    if (end == Text::npos || end == i + 1)
      round += square[i];
    else
      i = end;
  }
  return round;
}

/// A replacement of `word`. The word must end at a word's end. It must also begin at a word's
/// begin, unless it begins with an apostrophe or is an ending such as "n't".
struct Replacement {
  Text word, replacement;
  bool is_ending = false;
};

struct WhisperTables {
  WhisperTables() {
    const auto tables = nlohmann::json::parse(kWhisperReplacements);
    const auto text = [](const nlohmann::json& of) {
      return to_code_points(of.get<std::string>());
    };
    for (const auto& word : tables.at("hesitations")) hesitations.push_back({text(word), U""});
    for (const auto& pair : tables.at("words"))
      replacements.push_back({text(pair.at(0)), text(pair.at(1))});
    for (const auto& pair : tables.at("endings"))
      replacements.push_back({text(pair.at(0)), text(pair.at(1)), true});
    for (const auto& pair : tables.at("letters"))
      letters[text(pair.at(0)).front()] = text(pair.at(1));
  }

  // applied in this order: "'s been" comes before "'s"
  std::vector<Replacement> hesitations, replacements;
  // letters that Unicode does not separate into letter and mark
  std::unordered_map<char32_t, Text> letters;
};

const WhisperTables& whisper_tables() {
  static const WhisperTables kAll;
  return kAll;
}

void replace(Text& text, const Replacement& by) {
  size_t found = text.find(by.word);
  if (found == Text::npos) return;
  Text out;
  size_t done = 0;
  while (found != Text::npos) {
    const size_t end = found + by.word.size();
    const bool is_word =
        is_word_boundary(text, end) && (by.is_ending || is_word_boundary(text, found));
    if (is_word) {
      out.append(text, done, found - done).append(by.replacement);
      done = end;
    }
    found = text.find(by.word, is_word ? end : found + 1);
  }
  text = out.append(text, done);
}

/// Drops white space before apostrophes.
Text with_apostrophes_joined(View text) {
  Text out;
  for (const char32_t c : text) {
    if (c == U'\'') {
      while (!out.empty() && is_space(out.back())) out.pop_back();
    }
    out += c;
  }
  return out;
}

/// Drops commas between digits; points stay before 0-9 alone. Of neighbouring matches the later
/// one may have lost its first character to the earlier one, as in the original.
Text with_plain_numerals(View text) {
  Text joined, out;
  for (size_t i = 0; i < text.size(); ++i) {
    joined += text[i];
    const bool between = is_decimal_digit(text[i]) && i + 2 < text.size() && text[i + 1] == U',' &&
                         is_decimal_digit(text[i + 2]);
    if (between) joined += text[i += 2];
  }
  for (size_t i = 0; i < joined.size(); ++i) {
    const bool last = i + 1 == joined.size();
    if (joined[i] != U'.' || (!last && is_ascii_digit(joined[i + 1]))) {
      out += joined[i];
      continue;
    }
    out += U' ';
    if (!last) out += joined[++i];
  }
  return out;
}

View plain_letters(char32_t c) {
  const auto& letters = whisper_tables().letters;
  const auto found = c < 0x80 ? letters.end() : letters.find(c);
  return found == letters.end() ? View() : View(found->second);
}

/// Drops diacritics; symbols but those of numbers become spaces.
Text without_symbols(View text) {
  Text out;
  for (const char32_t c : decomposed(text)) {
    if (View(U".%$¢€£").find(c) != View::npos)
      out += c;
    else if (const View letters = plain_letters(c); !letters.empty())
      out += letters;
    else if (is_nonspacing_mark(c))
      continue;
    else
      out += is_symbol(c) ? U' ' : c;
  }
  return out;
}

const std::unordered_map<Text, Text>& american_spellings() {
  static const auto kAll = [] {
    std::unordered_map<Text, Text> all;
    const std::vector<Text> words = split_at_space(to_code_points(kWhisperSpelling));
    for (size_t i = 0; i + 1 < words.size(); i += 2) all[words[i]] = words[i + 1];
    return all;
  }();
  return kAll;
}

Text with_american_spelling(View text) {
  Text out;
  for (const Text& word : split_at_space(text)) {
    if (!out.empty()) out += U' ';
    const auto found = american_spellings().find(word);
    out += found == american_spellings().end() ? word : found->second;
  }
  return out;
}

/// Drops the symbols of numbers that no number follows, and each % without a number before it.
Text without_lone_signs(View text) {
  Text out, rest;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool lone = View(U".$¢€£").find(text[i]) != View::npos && i + 1 < text.size() &&
                      !is_ascii_digit(text[i + 1]);
    out += lone ? U' ' : text[i];
    if (lone) out += text[++i];
  }
  for (size_t i = 0; i < out.size(); ++i) {
    rest += out[i];
    if (is_ascii_digit(out[i]) || i + 1 == out.size() || out[i + 1] != U'%') continue;
    rest += U' ';
    ++i;
  }
  return rest;
}

}  // namespace

std::vector<std::string> whisper_english(std::string_view utf8_text) {
  Text text = without_brackets(lower_case(to_code_points(utf8_text)));
  for (const Replacement& hesitation : whisper_tables().hesitations) replace(text, hesitation);
  text = with_apostrophes_joined(text);
  for (const Replacement& replacement : whisper_tables().replacements) replace(text, replacement);
  text = without_symbols(with_plain_numerals(text));
  text = without_lone_signs(with_american_spelling(whisper_numbers(text)));
  std::vector<std::string> words;
  for (const Text& word : split_at_space(text)) words.push_back(to_utf8(word));
  return words;
}

namespace {

std::vector<std::string> split(std::string_view text) {
  const auto words = split_at(text, kAsciiSpace);
  return {words.begin(), words.end()};
}

constexpr UChar32 kApostrophe = '\'', kSpace = ' ', kNoJoiner = 0x200C, kJoiner = 0x200D,
                  kNoWidthSpace = 0x200B, kRightQuote = 0x2019, kModifierApostrophe = 0x02BC;

/// Returns whether it is a letter, a digit, or a mark that is a part of words.
bool is_in_words(UChar32 c) { return u_isalnum(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0; }

/// Returns whether it is invisible, such as a soft hyphen, a mark of direction or a variation
/// selector.
bool is_invisible(UChar32 c) {
  return c != kNoWidthSpace && u_hasBinaryProperty(c, UCHAR_DEFAULT_IGNORABLE_CODE_POINT);
}

/// Returns `text` with a space in place of everything that separates words.
icu::UnicodeString with_spaced_words(const icu::UnicodeString& text) {
  icu::UnicodeString kept;
  bool in_word = false;  // the last kept character belongs to a word
  for (int32_t i = 0; i < text.length();) {
    const UChar32 c = text.char32At(i);
    i = text.moveIndex32(i, 1);
    const bool between = in_word && i < text.length() && is_in_words(text.char32At(i));
    if (c == kJoiner || c == kNoJoiner) {
      if (between) kept.append(c);  // at the end of a word it changes nothing visible
    } else if (is_invisible(c)) {
      continue;
    } else if (c == kApostrophe || c == kModifierApostrophe || (c == kRightQuote && between)) {
      kept.append(kApostrophe);
      in_word = true;
    } else {
      in_word = u_isalnum(c) || (in_word && is_in_words(c));
      kept.append(in_word ? c : kSpace);
    }
  }
  return kept;
}

std::vector<std::string> basic_english(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfkc = icu::Normalizer2::getNFKCInstance(status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  const auto utf16 = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  icu::UnicodeString normal = nfkc->normalize(utf16, status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  normal.toLower(icu::Locale::getRoot());
  std::string utf8;
  return split(with_spaced_words(normal).toUTF8String(utf8));
}

/// Returns whether UAX #29 has a boundary of words between two neighbours in a word of
/// basic_english. Ideographs, Hiragana and letters of Thai, Lao, Khmer and Burmese have the class
/// "Other", and join none. Katakana joins Katakana alone.
bool is_unicode_boundary(UChar32 before, UChar32 c) {
  const auto class_of = [](UChar32 of) { return u_getIntPropertyValue(of, UCHAR_WORD_BREAK); };
  const int32_t left = class_of(before), right = class_of(c);
  return left == U_WB_OTHER || right == U_WB_OTHER ||
         (left == U_WB_KATAKANA) != (right == U_WB_KATAKANA);
}

std::vector<std::string> unicode_words(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string& spaced : basic_english(text)) {
    Text word;
    UChar32 before = 0;  // the last character that is neither a mark nor an apostrophe
    for (const char32_t c : to_code_points(spaced)) {
      const auto point = static_cast<UChar32>(c);
      if (u_isalnum(point)) {
        if (before != 0 && is_unicode_boundary(before, point)) {
          words.push_back(to_utf8(word));
          word.clear();
        }
        before = point;
      }
      word += c;
    }
    words.push_back(to_utf8(word));
  }
  return words;
}

}  // namespace

const std::vector<Normalizer>& normalizers() {
  static const std::vector<Normalizer> kAll = {{"none", 1, &split},
                                               {"basic_english", 2, &basic_english},
                                               {"unicode_words", 1, &unicode_words},
                                               {"whisper_english", 1, &whisper_english}};
  return kAll;
}

std::vector<std::string> normalizer_names() {
  std::vector<std::string> names;
  for (const auto& normalizer : normalizers()) names.push_back(normalizer.name);
  return names;
}

const Normalizer& find_normalizer(std::string_view name, std::string_view where) {
  for (const auto& normalizer : normalizers()) {
    if (normalizer.name == name) return normalizer;
  }
  throw unknown_name(where, "normalizer", name, normalizer_names());
}

}  // namespace rtfx
