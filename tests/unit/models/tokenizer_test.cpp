// The expected texts are those of NeMo 3.0.0 and transformers 5.23 for the same vocabularies and
// ids.
#include "models/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/pieces.h"
#include "models/tokenizers/sentencepiece.h"
#include "tests/support/user_error.h"

namespace rtfx {
namespace {

using Ids = std::vector<int32_t>;
using Pieces = std::vector<std::string>;

std::string bytes_of(const std::string& name) {
  std::ifstream in("tests/data/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::shared_ptr<const Tokenizer> load(const std::string& name) {
  return sentencepiece_tokenizer(bytes_of(name), name);
}

/// Returns the text of the ids of `pieces`.
std::string text(const Tokenizer& tokenizer, const Pieces& pieces) {
  Ids ids;
  for (const std::string& piece : pieces) {
    int32_t id = 0;
    while (id < tokenizer.size() && tokenizer.piece(id) != piece) ++id;
    EXPECT_LT(id, tokenizer.size()) << piece;
    ids.push_back(id);
  }
  return tokenizer.text(ids);
}

TEST(SentencePieceTokenizer, WritesWhatNemoWrites) {
  const auto t = load("pieces.model");
  EXPECT_EQ(t->kind(), "sentencepiece");
  EXPECT_EQ(t->size(), 96);
  EXPECT_EQ(t->unknown(), 0);
  EXPECT_EQ(t->piece(22), "▁knit");
  EXPECT_EQ(t->text({}), "");
  EXPECT_EQ(t->text(Ids{22, 57, 59}), "knit twogether");
  EXPECT_EQ(text(*t, {"▁knit", "▁", ".", "▁", "▁", "?"}), "knit. ?");
  EXPECT_EQ(text(*t, {"<unk>", "▁two", "<unk>", "s"}), " ⁇  two ⁇ s");
  EXPECT_EQ(text(*t, {"<de-DE>", "▁two"}), "<de-DE> two");
  EXPECT_EQ(text(*t, {"▁", "▁", "▁the"}), "the");
  EXPECT_EQ(text(*t, {"he", "▁", "'", "s"}), "he's");
  EXPECT_EQ(text(*t, {"▁the", "▁"}), "the ");
}

TEST(SentencePieceTokenizer, WritesPromptsThatAreSymbols) {
  const auto t = load("pieces.model");
  EXPECT_EQ(text(*t, {"<|quiet|>", "▁two", "<|quiet|>", "▁the"}), "two the");  // as NeMo
  EXPECT_EQ(text(*t, {"<|en|>", "▁two"}), "<|en|> two");
}

TEST(SentencePieceTokenizer, JoinsBytes) {
  const auto t = load("byte_pieces.model");
  EXPECT_EQ(t->size(), 340);
  EXPECT_EQ(text(*t, {"<0xC3>", "<0xA9>"}), "é");
  EXPECT_EQ(text(*t, {"▁the", "<0xE2>", "<0x82>", "<0xAC>", "▁a"}), "the€ a");
  EXPECT_EQ(text(*t, {"<0xC3>", "t"}), "\uFFFDt");
  EXPECT_EQ(text(*t, {"<0xE2>", "<0x82>", "▁the"}), "\uFFFD\uFFFD the");
  EXPECT_EQ(text(*t, {"<0x20>", "<0x61>"}), " a");
  EXPECT_EQ(text(*t, {"<0xFF>", "<0xC3>", "<0xA9>", "<0x80>"}), "\uFFFDé\uFFFD");
  EXPECT_EQ(text(*t, {"▁the", "<0x20>", "."}), "the.");
  EXPECT_EQ(text(*t, {"<s>", "▁the", "</s>", "<unk>"}), "the ⁇ ");
}

TEST(SentencePieceTokenizer, RefusesDamage) {
  const std::string model = bytes_of("pieces.model");
  const auto complaint = [](const std::string& bytes) {
    return test::user_error([&] { sentencepiece_tokenizer(bytes, "t.model"); });
  };
  EXPECT_EQ(complaint("").find("t.model: not a SentencePiece model"), 0u) << complaint("");
  for (size_t size = 0; size < model.size(); size += 7) complaint(model.substr(0, size));
  for (size_t i = 0; i < model.size(); ++i) {  // gives a UserError, or a model and a text
    std::string altered = model;
    altered[i] = static_cast<char>(altered[i] ^ (1 << (i % 8)));
    test::user_error([&] { sentencepiece_tokenizer(altered, "t.model")->text(Ids{0, 1, 2, 3}); });
  }
  EXPECT_NE(complaint(std::string(size_t{33} << 20, 'x')).find("too many"), std::string::npos);
}

// Field 3 is the normalizer, 4 the samples, and 5 the denormalizer. The table is field 2 in both
// normalizers.
TEST(SentencePieceTokenizer, TakesNoTablesOfTextRules) {
  const std::string model = bytes_of("pieces.model");
  const std::string table("\x12\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 10);
  const std::string samples("\x22\x08\x0A\x06\x0A\x01x\x12\x01y", 10);
  const auto t = sentencepiece_tokenizer(model + "\x1A\x0A" + table + samples, "t.model");
  EXPECT_EQ(t->text(Ids{22, 57}), "knit two");
  EXPECT_HAS(
      test::user_error([&] { sentencepiece_tokenizer(model + "\x2A\x0A" + table, "t.model"); }),
      "denormalizer");
}

TEST(CharacterTokenizer, WritesWhatNemoWrites) {
  const auto t = character_tokenizer(
      {" ", "a", "b", "h", "e", "s", "'", ".", "é", "。", "-", "\u00A0", "<.>", "\u3000"});
  EXPECT_EQ(t->kind(), "characters");
  EXPECT_EQ(t->size(), 14);
  EXPECT_EQ(t->unknown(), -1);
  EXPECT_EQ(text(*t, {"h", "e", " ", "'", "s", " ", "a"}), "he's a");
  EXPECT_EQ(text(*t, {"a", " ", " ", "."}), "a .");
  EXPECT_EQ(text(*t, {"a", "\u00A0", "。", "\u3000", "-"}), "a。-");
  EXPECT_EQ(text(*t, {" ", "é", " ", "b", " "}), " é b ");
  EXPECT_EQ(text(*t, {"a", " ", "<.>"}), "a <.>");
  EXPECT_THROW(t->text(Ids{14}), std::logic_error);
  EXPECT_THROW(t->text(Ids{-1}), std::logic_error);
}

TEST(CharacterTokenizer, RefusesWhatIsNoText) {
  EXPECT_NE(test::user_error([] { character_tokenizer({}); }), "");
  EXPECT_HAS(test::user_error([] { character_tokenizer({"a", "\xC3"}); }), "piece 1 is not UTF-8");
  EXPECT_NE(test::user_error([] { character_tokenizer({std::string(2000, 'a')}); }), "");
}

TEST(WordPieceTokenizer, WritesWhatNemoWrites) {
  const auto t = wordpiece_tokenizer(
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\n##llo\nit\n's\n,\n.\n##;\n-\n¿\n", "vocab.txt");
  EXPECT_EQ(t->kind(), "wordpiece");
  EXPECT_EQ(t->size(), 14);
  EXPECT_EQ(t->unknown(), 1);
  EXPECT_EQ(t->text({}), "");
  EXPECT_EQ(text(*t, {"he", "##llo", ",", "it", "'s", "he", "."}), "hello, it's he.");
  EXPECT_EQ(text(*t, {"##llo", "he"}), "##llo he");
  EXPECT_EQ(text(*t, {"[UNK]", "he", "[PAD]"}), "[UNK] he [PAD]");
  EXPECT_EQ(text(*t, {"he", "##;", "-", "it", "¿", "he"}), "he;- it¿ he");
}

// transformers 4.57 and 5.23 append the pieces that a vocab.txt lacks in this order.
TEST(WordPieceTokenizer, AppendsSpecialPiecesThatTheFileLacks) {
  const auto t = wordpiece_tokenizer("a\r\n[CLS]\r\rb", "vocab.txt");
  Pieces pieces;
  for (int32_t id = 0; id < t->size(); ++id) pieces.push_back(t->piece(id));
  EXPECT_EQ(pieces, (Pieces{"a", "[CLS]", "", "b", "[UNK]", "[SEP]", "[PAD]", "[MASK]"}));
  EXPECT_EQ(t->unknown(), 4);
}

TEST(WordPieceTokenizer, RefusesDamage) {
  EXPECT_NE(test::user_error([] { wordpiece_tokenizer("", "vocab.txt"); }), "");
  EXPECT_EQ(
      test::user_error([] { wordpiece_tokenizer("a\nb\na\n", "vocab.txt"); }).find("vocab.txt:3"),
      0u);
  EXPECT_NE(test::user_error([] { wordpiece_tokenizer("a\n\xFF\n", "vocab.txt"); }), "");
}

TEST(AggregateTokenizer, WritesWhatNemoWrites) {
  const auto words = wordpiece_tokenizer("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n", "v");
  const auto t = aggregate_tokenizer(
      {{"en", load("pieces.model")}, {"de", load("byte_pieces.model")}, {"fr", words}});
  EXPECT_EQ(t->kind(), "aggregate");
  EXPECT_EQ(t->size(), 96 + 340 + 8);
  EXPECT_EQ(t->unknown(), 0);
  EXPECT_EQ(t->piece(96 + 340 + 7), "##b");
  EXPECT_EQ(t->text(Ids{22, 57, 0, 1, 2}), " knit two<unk><|quiet|><|en|>");
  EXPECT_EQ(t->text(Ids{22, 65, 393, 357, 294}), " knit. the<0xC3>");
  EXPECT_EQ(t->text(Ids{441, 443, 437}), "a##b[UNK]");
}

TEST(AggregateTokenizer, TakesTheFirstUnknownPieceThatThereIs) {
  const auto letters = character_tokenizer({"a", "b"});
  EXPECT_EQ(aggregate_tokenizer({{"x", letters}})->unknown(), -1);
  EXPECT_EQ(aggregate_tokenizer({{"x", letters}, {"en", load("pieces.model")}})->unknown(), 2);
  EXPECT_NE(test::user_error([] { aggregate_tokenizer({}); }), "");
}

TEST(Punctuation, ComesFromPiecesOfTextOnly) {
  EXPECT_EQ(punctuation_marks({"a.b", "[!]", "<?>", "##;", "▁:", "$+", "¿", ".", "[", "<("}),
            U"(.[¿");
  EXPECT_EQ(without_space_before("a . \t, \u2003.", U",."), "a. , .");
  EXPECT_EQ(without_space_before("a .", U""), "a .");
}

// The following tests divide tokens into words, for every kind of vocabulary.

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

TEST(TokenWords, OfScriptsWithoutSpacesFollowUnicode) {
  const auto t = character_tokenizer({"我", "们", "喜", "欢", "。", "们喜", "「", "」", "a", " "});
  EXPECT_EQ(token_words(*t, Ids{0, 1, 2, 3, 4}),
            (Words{{"我们", 0, 2, 2}, {"喜欢。", 2, 3, 2, true}}));
  EXPECT_EQ(token_words(*t, Ids{0, 5, 3}), (Words{{"我们", 0, 2, 2}, {"喜欢", 1, 2, 2, true}}));
  EXPECT_EQ(token_words(*t, Ids{8, 9, 0, 1, 6, 2, 3, 7, 4}),
            (Words{{"a", 0, 1, 1}, {"我们", 2, 2, 2}, {"「喜欢」。", 4, 5, 3, true}}));
  const auto thai = character_tokenizer({"ส", "วัส", "ดี", "คร", "ับ"});
  EXPECT_EQ(token_words(*thai, Ids{0, 1, 2, 3, 4}),
            (Words{{"สวัสดี", 0, 3, 3}, {"ครับ", 3, 2, 2, true}}));
  // The Japanese text comes in bytes, and each byte is a token of its own.
  const auto bytes = load("byte_pieces.model");
  int32_t first_byte = 0;
  while (bytes->piece(first_byte) != "<0x00>") ++first_byte;
  Ids ids;
  for (const char c : std::string("こんにちは世界"))
    ids.push_back(first_byte + static_cast<unsigned char>(c));
  EXPECT_EQ(token_words(*bytes, ids), (Words{{"こんにちは", 0, 15, 15}, {"世界", 15, 6, 6, true}}));
}

TEST(TokenWords, LongTextIsDividedBetweenGraphemes) {
  EXPECT_EQ(parts_of("abcde", 2), (std::vector<std::string>{"ab", "cd", "e"}));
  EXPECT_EQ(parts_of("a\u0301b\u0301", 3), (std::vector<std::string>{"a\u0301", "b\u0301"}));
  EXPECT_EQ(parts_of("", 3), std::vector<std::string>{});
}

TEST(TokenWords, OfWordPieces) {
  const auto t = wordpiece_tokenizer("go\n##ing\nhome\n", "vocab.txt");
  EXPECT_EQ(token_words(*t, Ids{0, 1, 2, 0}),
            (Words{{"going", 0, 2, 2}, {"home", 2, 1, 1}, {"go", 3, 1, 1}}));
}

}  // namespace
}  // namespace rtfx
