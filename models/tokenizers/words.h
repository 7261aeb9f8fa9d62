// Which tokens make a word, for every kind of vocabulary: told by the text that they give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// A word and its tokens, ids [first, first + count).
struct TokenWord {
  std::string text;  // as Tokenizer::text() has it, without white space around it
  size_t first = 0, count = 0;
  /// Tokens of it before the punctuation that it ends with; all of a word of punctuation alone.
  size_t spoken = 0;

  bool operator==(const TokenWord&) const = default;
};

/// The words of `ids` in their order. Joined by one space, they are the text without white space at
/// its ends and without runs of it. A word begins where the text has white space before a token, so
/// punctuation that the tokenizer joins to a word belongs to that word. Tokens of white space alone
/// belong to a word only where they lie within it.
std::vector<TokenWord> token_words(const Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace rtfx
