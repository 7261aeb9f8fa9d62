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

std::string Tokenizer::normalized(std::string_view text) const { return std::string(text); }

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

/// Returns whether the last of `ids` is separated by a space from those before it. A few tokens are
/// enough, because the text does not depend on more distant ones.
bool stands_apart(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const std::string before = tokenizer.text(ids.first(ids.size() - 1));
  const std::string_view left = without_end(before);
  const std::string both = tokenizer.text(ids);
  return both.size() > left.size() && both.starts_with(left) &&
         kWhiteSpace.find(both[left.size()]) != kWhiteSpace.npos;
}

/// Returns the byte at which each token begins in `text`, which the tokens spell. The bytes of one
/// character may be several tokens, which spell it together.
std::vector<size_t> token_offsets(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                  std::string_view text) {
  constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";
  const auto spelled = [&](size_t first, size_t count) {
    const std::string own = tokenizer.text(ids.subspan(first, count));
    return std::string(first == 0 ? trimmed(own) : std::string_view(own));
  };
  std::vector<size_t> offsets;
  size_t at = 0;
  for (size_t i = 0; i < ids.size();) {
    std::string own = spelled(i, 1);
    size_t count = 1;
    while (own.find(kNoCharacter) != own.npos && i + count < ids.size() && count < 4)
      own = spelled(i, ++count);
    offsets.insert(offsets.end(), count, at);
    at += text.substr(std::min(at, text.size())).starts_with(own) ? own.size() : text.size() + 1;
    i += count;
  }
  if (at == text.size()) return offsets;
  // One by one, the tokens spell something else, so they get equal shares of the text.
  for (size_t i = 0; i < ids.size(); ++i) offsets[i] = text.size() * i / ids.size();
  return offsets;
}

/// Appends the parts of `word` to `words`.
void append_divided(const Tokenizer& tokenizer, std::span<const int32_t> ids, const TokenWord& word,
                    std::vector<TokenWord>& words) {
  const std::vector<TextWord> parts = words_without_spaces(word.text);
  if (parts.size() < 2) {
    words.push_back(word);
    return;
  }
  const std::vector<size_t> offsets =
      token_offsets(tokenizer, ids.subspan(word.first, word.count), word.text);
  const auto token_of = [&](size_t byte) {  // the first that begins there, or the one before
    const auto found = std::ranges::lower_bound(offsets, byte);
    const bool begins = found != offsets.end() && *found == byte;
    return static_cast<size_t>(found - offsets.begin()) - (begins ? 0 : 1);
  };
  const auto end_of = [&](size_t byte) {  // the end of the last token that begins before it
    return static_cast<size_t>(std::ranges::lower_bound(offsets, byte) - offsets.begin());
  };
  for (const TextWord& part : parts) {
    const size_t first = token_of(part.begin);
    words.push_back({.text = word.text.substr(part.begin, part.end - part.begin),
                     .first = word.first + first,
                     .count = end_of(part.end) - first,
                     .spoken = end_of(part.spoken) - first,
                     .joined = part.begin > 0});
  }
}

}  // namespace

std::vector<TokenWord> token_words(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<TokenWord> words;
  size_t seen = 0;  // index of the newest token with visible text
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
  std::vector<TokenWord> divided;
  for (const TokenWord& word : words)
    if (!word.text.empty()) append_divided(tokenizer, ids, word, divided);  // not a removed tag
  return divided;
}

}  // namespace rtfx
