#include "models/tokenizers/speller.h"

#include <algorithm>
#include <limits>

#include "models/tokenizers/letters.h"

namespace rtfx {
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
    ids_.try_emplace(std::move(piece), id);  // of equal ones the first
  }
  words_apart_ = words_apart_ && space_ == " ";
}

std::vector<int32_t> Speller::operator()(const std::string& text) const {
  std::vector<int32_t> ids = tokenizer_.encode(text);
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

/// `continues`: all pieces but the first are "##...".
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
