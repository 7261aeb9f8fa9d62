// Words of every kind of vocabulary, by the tokens that they are made of.
#include "models/tokenizers/words.h"

#include <gtest/gtest.h>

#include "models/tokenizers/aggregate.h"
#include "models/tokenizers/characters.h"
#include "models/tokenizers/wordpiece.h"

namespace rtfx {
namespace {

using Ids = std::vector<int32_t>;
using Words = std::vector<TokenWord>;

std::shared_ptr<const Tokenizer> pieces() {
  // Tokens: 0 ▁the, 1 ▁cat, 2 s, 3 ▁, 4 ., 5 ▁., 6 ▁boys, 7 '
  return aggregate_tokenizer(
      {{"x", character_tokenizer({"▁the", "▁cat", "s", "▁", ".", "▁.", "▁boys", "'"})}});
}

TEST(TokenWords, OfPieces) {
  const auto t = pieces();
  EXPECT_EQ(token_words(*t, Ids{}), Words{});
  EXPECT_EQ(token_words(*t, Ids{0}), (Words{{"the", 0, 1, 1}}));
  EXPECT_EQ(token_words(*t, Ids{0, 1, 2}), (Words{{"the", 0, 1, 1}, {"cats", 1, 2, 2}}));
  EXPECT_EQ(token_words(*t, Ids{2, 0}), (Words{{"s", 0, 1, 1}, {"the", 1, 1, 1}}));
}

TEST(TokenWords, WhiteSpaceAloneIsNoWord) {
  const auto t = pieces();
  EXPECT_EQ(token_words(*t, Ids{3, 3}), Words{});
  EXPECT_EQ(token_words(*t, Ids{0, 3, 2, 3}), (Words{{"the", 0, 1, 1}, {"s", 2, 1, 1}}));
  EXPECT_EQ(token_words(*t, Ids{0, 3, 1}), (Words{{"the", 0, 1, 1}, {"cat", 2, 1, 1}}));
}

TEST(TokenWords, PunctuationBelongsToTheWordBeforeButIsNotSpoken) {
  const auto t = pieces();
  EXPECT_EQ(token_words(*t, Ids{1, 2, 4}), (Words{{"cats.", 0, 3, 2}}));
  EXPECT_EQ(token_words(*t, Ids{1, 5, 0}), (Words{{"cat.", 0, 2, 1}, {"the", 2, 1, 1}}));
  EXPECT_EQ(token_words(*t, Ids{1, 3, 4}), (Words{{"cat.", 0, 3, 1}}));
  EXPECT_EQ(token_words(*t, Ids{6, 7, 2}), (Words{{"boys's", 0, 3, 3}}));
  EXPECT_EQ(token_words(*t, Ids{4}), (Words{{".", 0, 1, 1}}));
}

TEST(TokenWords, OfCharacters) {
  const auto t = character_tokenizer({" ", "a", "b"});
  EXPECT_EQ(token_words(*t, Ids{0, 1, 2, 0, 0, 2, 0}), (Words{{"ab", 1, 2, 2}, {"b", 5, 1, 1}}));
}

TEST(TokenWords, OfWordPieces) {
  const auto t = wordpiece_tokenizer("go\n##ing\nhome\n", "vocab.txt");
  EXPECT_EQ(token_words(*t, Ids{0, 1, 2, 0}),
            (Words{{"going", 0, 2, 2}, {"home", 2, 1, 1}, {"go", 3, 1, 1}}));
}

}  // namespace
}  // namespace rtfx
