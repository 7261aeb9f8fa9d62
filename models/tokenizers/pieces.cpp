#include "models/tokenizers/pieces.h"

#include <fmt/format.h>
#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"

namespace rtfx {

namespace {

/// Returns whether `\s` matches the character in a Python string. ICU's white space is another set.
bool is_space(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool enclosed(std::string_view piece, char first, char last) {
  return piece.size() >= 2 && piece.front() == first && piece.back() == last;
}

bool is_special(std::string_view piece) {
  return enclosed(piece, '[', ']') || enclosed(piece, '<', '>') || piece.starts_with("##") ||
         piece.starts_with("▁");
}

}  // namespace

std::u32string punctuation_marks(const std::vector<std::string>& pieces) {
  std::set<char32_t> marks;
  for (const std::string& piece : pieces) {
    if (is_special(piece)) continue;
    for (size_t at = 0; at < piece.size();) {
      const int32_t c = next_code_point(piece, at);
      if (c >= 0 && u_ispunct(c)) marks.insert(static_cast<char32_t>(c));
    }
  }
  return {marks.begin(), marks.end()};
}

std::string without_space_before(std::string text, std::u32string_view marks) {
  if (marks.empty()) return text;
  std::string kept;
  size_t space = 0;  // bytes of the white space that `kept` ends with; 0 if it ends otherwise
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const int32_t c = next_code_point(text, at);
    if (space > 0 && std::binary_search(marks.begin(), marks.end(), static_cast<char32_t>(c)))
      kept.resize(kept.size() - space);
    kept.append(text, begin, at - begin);
    space = is_space(c) ? at - begin : 0;
  }
  return kept;
}

bool is_punctuation(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int32_t c = next_code_point(text, at);
    if (c < 0 || !u_ispunct(c)) return false;
  }
  return !text.empty();
}

namespace {

/// Returns whether nmt_nfkc removes a character (sentencepiece/src/builder.cc, BuildNmtNFKCMap).
bool is_nmt_removed(UChar32 c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
         c == 0x8F || c == 0x9F;
}

/// Returns whether nmt_nfkc takes a character for a space.
bool is_nmt_space(UChar32 c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x061C || c == 0x1680 ||
         c == 0x200B || c == 0x200C || c == 0x200E || c == 0x200F || c == 0x2028 || c == 0x2029 ||
         c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

/// Returns NFKC, except that the fullwidth tilde stays, which has another meaning in Japanese than
/// "~".
const icu::Normalizer2& nfkc_without_tilde(const icu::Normalizer2& nfkc) {
  static const icu::UnicodeSet kOthers = [] {
    icu::UnicodeSet others(0, 0x10FFFF);
    others.remove(0xFF5E).freeze();
    return others;
  }();
  static const icu::FilteredNormalizer2 kRules(nfkc, kOthers);
  return kRules;
}

}  // namespace

std::string text_in_form(std::string_view text, TextForm form) {
  if (form == TextForm::as_is) return std::string(text);
  const bool folds = form == TextForm::nfkc_cf || form == TextForm::nmt_nfkc_cf;
  const bool is_nmt = form == TextForm::nmt_nfkc || form == TextForm::nmt_nfkc_cf;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfkc = icu::Normalizer2::getNFKCInstance(status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  const auto given = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  const icu::Normalizer2& rules = is_nmt ? nfkc_without_tilde(*nfkc) : *nfkc;
  const icu::UnicodeString normal = rules.normalize(given, status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  icu::UnicodeString kept;
  for (int32_t i = 0; i < normal.length(); i = normal.moveIndex32(i, 1)) {
    UChar32 c = normal.char32At(i);
    if (folds) c = u_foldCase(c, U_FOLD_CASE_DEFAULT);
    if (is_nmt && is_nmt_removed(c)) continue;
    if (is_space(c) || (is_nmt && is_nmt_space(c))) {
      if (!kept.isEmpty() && !kept.endsWith(u" ", 1)) kept.append(UChar32{' '});
    } else {
      kept.append(c);
    }
  }
  if (kept.endsWith(u" ", 1)) kept.truncate(kept.length() - 1);
  std::string utf8;
  return kept.toUTF8String(utf8);
}

bool is_unspaced(char32_t character) {
  const auto c = static_cast<UChar32>(character);
  UErrorCode status = U_ZERO_ERROR;
  switch (uscript_getScript(c, &status)) {
    case USCRIPT_HAN:
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
    case USCRIPT_BOPOMOFO:
    case USCRIPT_YI:
      return true;
    default:  // such as Thai, Lao, Khmer, Burmese
      return u_getIntPropertyValue(c, UCHAR_LINE_BREAK) == U_LB_COMPLEX_CONTEXT;
  }
}

namespace {

/// Calls visit(begin, end, is_word) for each part of the text between boundaries.
template <class Visit>
void for_each_part(icu::BreakIterator& breaks, std::string_view text, const Visit& visit) {
  UErrorCode status = U_ZERO_ERROR;
  UText utf8 = UTEXT_INITIALIZER;
  utext_openUTF8(&utf8, text.data(), static_cast<int64_t>(text.size()), &status);
  breaks.setText(&utf8, status);
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  int32_t begin = breaks.first();
  for (int32_t end = breaks.next(); end != icu::BreakIterator::DONE; end = breaks.next()) {
    visit(static_cast<size_t>(begin), static_cast<size_t>(end),
          breaks.getRuleStatus() >= UBRK_WORD_NONE_LIMIT);
    begin = end;
  }
  utext_close(&utf8);
}

using MakeBreaks = icu::BreakIterator* (*)(const icu::Locale&, UErrorCode&);

std::unique_ptr<icu::BreakIterator> made(MakeBreaks make) {
  UErrorCode status = U_ZERO_ERROR;
  std::unique_ptr<icu::BreakIterator> breaks(make(icu::Locale::getRoot(), status));
  RTFX_CHECK(U_SUCCESS(status), u_errorName(status));
  return breaks;
}

}  // namespace

std::vector<TextWord> words_without_spaces(std::string_view text) {
  bool found = false;
  for (size_t at = 0; at < text.size() && !found;) {
    const int32_t c = next_code_point(text, at);
    found = c >= 0x80 && is_unspaced(static_cast<char32_t>(c));
  }
  std::vector<TextWord> words;
  if (!found) return words;
  thread_local const auto breaks = made(&icu::BreakIterator::createWordInstance);
  bool opened = false;  // The last word has only opening marks so far.
  for_each_part(*breaks, text, [&](size_t begin, size_t end, bool is_word) {
    size_t at = begin;
    const int32_t c = next_code_point(text, at);
    const auto type = u_charType(c);
    const bool opens = !is_word && (type == U_START_PUNCTUATION || type == U_INITIAL_PUNCTUATION);
    if (words.empty() || ((is_word || opens) && !opened)) words.push_back({begin, end, end});
    words.back().end = end;
    if (is_word || opens) words.back().spoken = end;
    opened = opens || (opened && !is_word);
  });
  return words;
}

std::vector<std::string> parts_of(std::string_view text, size_t most) {
  thread_local const auto breaks = made(&icu::BreakIterator::createCharacterInstance);
  std::vector<std::string> parts;
  size_t used = 0;
  for_each_part(*breaks, text, [&](size_t begin, size_t end, bool) {
    size_t characters = 0;
    for (size_t at = begin; at < end; ++characters) next_code_point(text, at);
    if (parts.empty() || used + characters > most) {
      parts.emplace_back();
      used = 0;
    }
    parts.back() += text.substr(begin, end - begin);
    used += characters;
  });
  return parts;
}

void check_pieces(const std::vector<std::string>& pieces, std::string_view where) {
  if (pieces.empty()) throw UserError(where, "has no pieces", "the tokenizer is damaged");
  constexpr size_t kLongest = 1024;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size() > kLongest) {
      throw UserError(where, fmt::format("piece {} has {} bytes", i, pieces[i].size()),
                      "the tokenizer is damaged");
    }
    if (!is_utf8(pieces[i])) {
      throw UserError(where, fmt::format("piece {} is not UTF-8", i), "the tokenizer is damaged");
    }
  }
}

}  // namespace rtfx
