#include "models/tokenizers/pieces.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace rtfx {

namespace {

/// Whether `\s` matches it in a Python string, which is not ICU's idea of white space.
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
