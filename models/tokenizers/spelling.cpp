#include "models/tokenizers/spelling.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/numbers.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {

namespace {

/// A set of letters: the code points `first` to `last`, or all of a script.
struct LetterSet {
  int32_t first = 0, last = -1;
  UScriptCode script = USCRIPT_INVALID_CODE;

  bool contains(int32_t c) const {
    if (script == USCRIPT_INVALID_CODE) return first <= c && c <= last;
    return uscript_hasScript(c, script) != 0;
  }
};

/// Converts "U+0400" to 0x400. Returns a negative number for anything else.
int32_t number_of(std::string_view text) {
  if (!text.starts_with("U+") && !text.starts_with("u+")) return -1;
  return parse_number<int32_t>(text.substr(2), 16).value_or(-1);
}

LetterSet letters_of(const std::string& entry, std::string_view where) {
  size_t at = 0;
  const int32_t c = entry.empty() ? -1 : next_code_point(entry, at);
  if (c >= 0 && at == entry.size()) return {c, c};
  const size_t dash = std::min(entry.find('-'), entry.size());
  const int32_t first = number_of(std::string_view(entry).substr(0, dash));
  const int32_t last =
      dash == entry.size() ? first : number_of(std::string_view(entry).substr(dash + 1));
  if (first >= 0 && first <= last) return {first, last};
  const int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, entry.c_str());
  if (script != UCHAR_INVALID_CODE && first < 0) return {0, -1, static_cast<UScriptCode>(script)};
  throw UserError(where, fmt::format("'{}' names no characters", entry),
                  "give a script of Unicode (latin, cyrillic), a range (U+0400-U+04FF) or a single "
                  "character");
}

/// Returns whether a character is in a block of accents for several scripts. From version 16 on,
/// Unicode lists the scripts that use each accent. Their property therefore does not say any more
/// that all scripts may use them.
bool is_accent_of_several_scripts(int32_t c) {
  switch (ublock_getCode(c)) {
    case UBLOCK_SPACING_MODIFIER_LETTERS:
    case UBLOCK_COMBINING_DIACRITICAL_MARKS:
    case UBLOCK_COMBINING_DIACRITICAL_MARKS_EXTENDED:
    case UBLOCK_COMBINING_DIACRITICAL_MARKS_SUPPLEMENT:
    case UBLOCK_COMBINING_MARKS_FOR_SYMBOLS:
    case UBLOCK_COMBINING_HALF_MARKS:
      return true;
    default:
      return false;
  }
}

/// Returns whether a character belongs to a script. Digits and punctuation do not. Neither do marks
/// and modifier letters that all scripts share, such as the acute accent U+0301 and U+02BC.
bool is_of_a_script(int32_t c) {
  const uint32_t type = U_MASK(u_charType(c));
  if ((type & (U_GC_L_MASK | U_GC_M_MASK)) == 0) return false;
  const bool is_shared = is_accent_of_several_scripts(c) ||
                         uscript_hasScript(c, USCRIPT_INHERITED) != 0 ||
                         uscript_hasScript(c, USCRIPT_COMMON) != 0;
  return !is_shared || (type & (U_GC_LM_MASK | U_GC_M_MASK)) == 0;
}

std::string bytes_of(const std::vector<int32_t>& text) {
  std::string bytes;
  for (const int32_t c : text) {
    char buffer[U8_MAX_LENGTH];
    int32_t length = 0;
    U8_APPEND_UNSAFE(buffer, length, c);
    bytes.append(buffer, static_cast<size_t>(length));
  }
  return bytes;
}

}  // namespace

bool is_special_piece(std::string_view piece) {
  const auto enclosed = [&](char first, char last) {
    return piece.size() > 2 && piece.front() == first && piece.back() == last;
  };
  return enclosed('<', '>') || enclosed('[', ']');
}

std::vector<bool> allowed_tokens(const Tokenizer& tokenizer, int64_t vocabulary,
                                 const std::vector<std::string>& characters,
                                 std::string_view where) {
  std::vector<LetterSet> all;
  for (const std::string& entry : characters) all.push_back(letters_of(entry, where));
  std::vector<bool> allowed(static_cast<size_t>(vocabulary), true);
  bool any_letter = false;
  for (int32_t id = 0; id < std::min(vocabulary, tokenizer.size()); ++id) {
    const std::string piece = tokenizer.piece(id);
    if (is_special_piece(piece)) continue;
    bool may = true, letter = false;
    for (size_t at = 0; at < piece.size();) {
      const int32_t c = next_code_point(piece, at);
      if (c < 0 || !is_of_a_script(c)) continue;
      letter = true;
      may =
          may && std::ranges::any_of(all, [&](const LetterSet& some) { return some.contains(c); });
    }
    allowed[static_cast<size_t>(id)] = may;
    any_letter = any_letter || (may && letter);
  }
  if (!any_letter) {
    throw UserError(where, "none of the model's tokens has an allowed letter",
                    "allow a script that the model writes");
  }
  return allowed;
}

std::vector<std::string> other_spellings(const std::string& text) {
  std::vector<int32_t> lower, upper, capital;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const int32_t c = next_code_point(text, at);
    if (c < 0) return {};
    lower.push_back(u_tolower(c));
    upper.push_back(u_toupper(c));
    capital.push_back(begins ? u_toupper(c) : u_tolower(c));
    begins = c == ' ';
  }
  std::vector<std::string> others;
  for (const auto& spelling : {lower, upper, capital}) {
    std::string one = bytes_of(spelling);
    if (one != text && std::ranges::find(others, one) == others.end())
      others.push_back(std::move(one));
  }
  return others;
}

namespace {

constexpr std::string_view kContinuation = "##";

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  return text;
}

}  // namespace

Speller::Speller(const Tokenizer& tokenizer) : tokenizer_(tokenizer), space_(" ") {
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    std::string piece = tokenizer.piece(id);
    if (piece.empty() || is_special_piece(piece)) continue;
    for (const char* space : {"▁", "Ġ"})
      if (piece.starts_with(space)) space_ = space;
    words_apart_ = words_apart_ || (piece.starts_with(kContinuation) && piece != kContinuation);
    longest_ = std::max(longest_, piece.size());
    ids_.try_emplace(std::move(piece), id);  // the first of equal pieces counts
  }
  words_apart_ = words_apart_ && space_ == " ";
}

std::vector<int32_t> Speller::operator()(const std::string& text) const {
  std::vector<int32_t> ids = spell(tokenizer_.normalized(text));
  if (ids.empty()) ids = spell(text);
  if (ids.empty()) ids = spell(text_in_form(text, TextForm::nfkc));
  return ids;
}

std::vector<int32_t> Speller::spell(const std::string& text) const {
  std::vector<int32_t> ids = tokenizer_.encode(text);
  // The unknown piece has a text that a phrase may contain, but it stands for any other text too.
  if (std::ranges::find(ids, tokenizer_.unknown()) != ids.end()) return {};
  if (ids.empty()) ids = fewest(text);
  if (without_spaces(tokenizer_.text(ids)) != without_spaces(text)) return {};
  return ids;
}

std::vector<int32_t> Speller::fewest(const std::string& text) const {
  std::vector<int32_t> ids;
  if (words_apart_) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      if (!append_fewest(std::string_view(text).substr(begin, end - begin), true, ids)) return {};
      begin = end + 1;
    }
    return ids;
  }
  std::string spelled = space_ == " " ? "" : space_;
  for (const char c : text) c == ' ' ? void(spelled += space_) : spelled.push_back(c);
  return append_fewest(spelled, false, ids) ? ids : std::vector<int32_t>{};
}

/// With `continues`, all pieces except the first have the form "##...".
bool Speller::append_fewest(std::string_view text, bool continues,
                            std::vector<int32_t>& ids) const {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  struct Rest {
    size_t pieces = kNever, length = 0;
    int32_t id = 0;
  };
  std::vector<Rest> from(text.size() + 1);  // the fewest pieces from each byte on
  from.back().pieces = 0;
  for (size_t begin = text.size(); begin-- > 0;) {
    for (size_t length = std::min(longest_, text.size() - begin); length > 0; --length) {
      const size_t rest = from[begin + length].pieces;
      if (rest == kNever || rest + 1 >= from[begin].pieces) continue;
      std::string piece(text.substr(begin, length));
      if (continues && begin > 0) piece.insert(0, kContinuation);
      const auto found = ids_.find(piece);
      if (found != ids_.end()) from[begin] = {rest + 1, length, found->second};
    }
  }
  if (from.front().pieces == kNever) return false;
  for (size_t at = 0; at < text.size(); at += from[at].length) ids.push_back(from[at].id);
  return true;
}

}  // namespace rtfx
