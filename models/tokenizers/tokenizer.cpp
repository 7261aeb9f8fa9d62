#include "models/tokenizers/tokenizer.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "models/tokenizers/pieces.h"

namespace rtfx {

std::string Tokenizer::text(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) RTFX_CHECK(id >= 0 && id < size(), "a token id without a piece");
  return without_space_before(join(ids), marks_);
}

std::vector<int32_t> Tokenizer::encode(std::string_view) const { return {}; }

namespace {

constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

std::string_view without_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kWhiteSpace);
  return last == text.npos ? std::string_view() : text.substr(0, last + 1);
}

std::string_view trimmed(std::string_view text) {
  text = without_end(text);
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

/// Whether the last of `ids` stands apart from those before it. A few tokens tell: text does not
/// depend on what is further away.
bool stands_apart(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const std::string before = tokenizer.text(ids.first(ids.size() - 1));
  const std::string_view left = without_end(before);
  const std::string both = tokenizer.text(ids);
  return both.size() > left.size() && both.starts_with(left) &&
         kWhiteSpace.find(both[left.size()]) != kWhiteSpace.npos;
}

}  // namespace

std::vector<TokenWord> token_words(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<TokenWord> words;
  size_t seen = 0;  // the newest token with text to be seen
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string own = tokenizer.text(ids.subspan(i, 1));
    const std::string_view text = trimmed(own);
    if (text.empty()) continue;
    if (words.empty() || stands_apart(tokenizer, ids.subspan(seen, i + 1 - seen)))
      words.push_back({.text = {}, .first = i, .count = 0, .spoken = 0});
    TokenWord& word = words.back();
    word.count = i + 1 - word.first;
    if (!is_punctuation(text)) word.spoken = word.count;
    seen = i;
  }
  for (TokenWord& word : words) {
    const std::string text = tokenizer.text(ids.subspan(word.first, word.count));
    word.text = trimmed(text);
    if (word.spoken == 0) word.spoken = word.count;
  }
  return words;
}

}  // namespace rtfx
