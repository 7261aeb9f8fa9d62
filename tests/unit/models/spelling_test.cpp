// Tests phrases as token ids for each kind of vocabulary, and tokens by their characters.
#include "models/tokenizers/spelling.h"

#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/pieces.h"
#include "models/tokenizers/sentencepiece.h"

namespace rtfx {
namespace {

using Pieces = std::vector<std::string>;

Pieces spelled(const Tokenizer& tokenizer, const std::string& text) {
  Pieces pieces;
  for (const int32_t id : Speller(tokenizer)(text)) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

std::shared_ptr<const Tokenizer> knitting() {
  std::ifstream in("tests/data/pieces.model", std::ios::binary);
  return sentencepiece_tokenizer({std::istreambuf_iterator<char>(in), {}}, "pieces.model");
}

TEST(Spelling, SentencePieceByItsOwnRule) {
  const auto t = knitting();
  EXPECT_EQ(Speller(*t)("knit two"), (std::vector<int32_t>{22, 57}));
  // SentencePiece's rule does not give the fewest pieces.
  EXPECT_EQ(Speller(*t)("hello world"), (std::vector<int32_t>{63, 42, 68, 21, 68, 72, 76, 75}));
  EXPECT_TRUE(Speller(*t)("x§y").empty());  // <unk>
  // The text of <unk> is U+2047. Only its NFKC form, "??", has a spelling.
  EXPECT_EQ(std::ranges::count(t->encode("knit ⁇"), t->unknown()), 1);
  EXPECT_EQ(std::ranges::count(Speller(*t)("knit ⁇"), t->unknown()), 0);
  EXPECT_EQ(Speller(*t)("knit ⁇"), Speller(*t)("knit ??"));
  EXPECT_TRUE(Speller(*t)("Knit").empty());
}

TEST(Spelling, OtherUnicodeFormsAreNormalised) {
  // Field 3 of a model is the normalizer, whose field 1 is its name.
  std::ifstream in("tests/data/pieces.model", std::ios::binary);
  const std::string model{std::istreambuf_iterator<char>(in), {}};
  const auto t = sentencepiece_tokenizer(model + "\x1A\x0A\x0A\x08nmt_nfkc", "pieces.model");
  const std::vector<int32_t> two = {22, 57};
  EXPECT_EQ(t->normalized("ｋnit\u00A0two\u200B"), "knit two");
  for (const char* text : {"ｋnit two", "knit\u00A0two", "ＫＮＩＴ two", "knit\u3000two "})
    EXPECT_EQ(Speller(*t)(text),
              std::string_view(text).starts_with("Ｋ") ? std::vector<int32_t>{} : two)
        << text;
  EXPECT_EQ(Speller(*t)("ﬁ"), Speller(*t)("fi"));
  // A kind of vocabulary without rules of its own takes other Unicode forms, too. It joins a letter
  // and a mark that stand apart.
  const auto letters = character_tokenizer({"f", "i", "é", " "});
  EXPECT_EQ(spelled(*letters, "ﬁ"), (Pieces{"f", "i"}));
  EXPECT_EQ(spelled(*letters, "e\u0301"), (Pieces{"é"}));
  EXPECT_EQ(text_in_form("Straße \t ﬁ", TextForm::nmt_nfkc_cf), "straße fi");
  EXPECT_EQ(text_in_form("a  b", TextForm::as_is), "a  b");
}

TEST(Spelling, FormsAreSentencePieces) {
  // This is the text of tests/golden/make_sentencepiece_forms.py, which made the checksums.
  std::string text;
  for (UChar32 c = 1; c <= 0x10FFFF; ++c) {
    UVersionInfo age;
    u_charAge(c, age);
    const bool is_old = age[0] < 3 || (age[0] == 3 && age[1] <= 2);
    if (!is_old || (U_GET_GC_MASK(c) & (U_GC_CN_MASK | U_GC_CS_MASK | U_GC_CO_MASK)) != 0) continue;
    char buffer[U8_MAX_LENGTH];
    int32_t length = 0;
    U8_APPEND_UNSAFE(buffer, length, c);
    text += "." + std::string(buffer, static_cast<size_t>(length)) + ".";
  }
  std::ifstream in("tests/golden/data/sentencepiece_forms.json");
  const auto expected = nlohmann::json::parse(in);
  EXPECT_EQ(sha256(text_in_form(text, TextForm::nfkc)), expected.at("nfkc"));
  EXPECT_EQ(sha256(text_in_form(text, TextForm::nmt_nfkc)), expected.at("nmt_nfkc"));
  EXPECT_EQ(sha256(text_in_form(text, TextForm::nfkc_cf)), expected.at("nfkc_cf"));
  EXPECT_EQ(sha256(text_in_form(text, TextForm::nmt_nfkc_cf)), expected.at("nmt_nfkc_cf"));
  EXPECT_EQ(text_in_form("ẞİ", TextForm::nfkc_cf), "ßİ");
  EXPECT_EQ(text_in_form("a\u200Db～", TextForm::nmt_nfkc), "a\u200Db～");
  EXPECT_EQ(text_in_form("か～か\u3099", TextForm::nmt_nfkc), "か～が");
  EXPECT_EQ(text_in_form("か～か\u3099", TextForm::nfkc), "か~が");
}

TEST(Spelling, TheFewestPiecesAndTheLongerFirst) {
  const auto t = aggregate_tokenizer({{"one", character_tokenizer({"▁a", "▁ab", "b", "bc", "c", "▁",
                                                                   "d", "dd", "<unk>", "ddd"})}});
  EXPECT_EQ(spelled(*t, "abc"), (Pieces{"▁ab", "c"}));  // not ▁a bc
  EXPECT_EQ(spelled(*t, "abcd ab"), (Pieces{"▁ab", "c", "d", "▁ab"}));
  EXPECT_EQ(spelled(*t, "dddd"), (Pieces{"▁", "ddd", "d"}));
  EXPECT_TRUE(spelled(*t, "abe").empty());
  EXPECT_TRUE(spelled(*t, "<unk>").empty());
}

TEST(Spelling, CharactersAndWordPieces) {
  const auto letters = character_tokenizer({" ", "a", "b", "ß"});
  EXPECT_EQ(spelled(*letters, "ab ß"), (Pieces{"a", "b", " ", "ß"}));
  const auto words = wordpiece_tokenizer("un\n##able\n##ab\n##le\nable\n##s\n", "vocab.txt");
  EXPECT_EQ(spelled(*words, "unables able"), (Pieces{"un", "##able", "##s", "able"}));
  EXPECT_TRUE(spelled(*words, "les").empty());  // ##le begins no word
}

TEST(Spelling, OneLanguageOfSeveral) {
  const auto first = character_tokenizer({"▁k", "n", "i", "t", "▁z"});
  const auto both = aggregate_tokenizer({{"one", first}, {"two", knitting()}});
  EXPECT_EQ(Speller(*both)("knit"), (std::vector<int32_t>{5 + 22}));
  EXPECT_EQ(Speller(*both)("zn"), (std::vector<int32_t>{4, 1}));
  EXPECT_TRUE(Speller(*both)("z knit").size() >= 2);
  EXPECT_TRUE(Speller(*both)("§").empty());
}

/// A tokenizer of the letters a to c, which counts how often a piece was asked for.
class CountedLetters : public Tokenizer {
 public:
  std::string kind() const override { return "characters"; }
  int64_t size() const override { return 3; }
  std::string piece(int32_t id) const override {
    ++asked;
    return std::string(1, static_cast<char>('a' + id));
  }
  int32_t unknown() const override { return -1; }

  mutable int asked = 0;

 protected:
  std::string join(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) text += static_cast<char>('a' + id);
    return text;
  }
};

TEST(Spelling, AnAggregateReadsItsVocabulariesOnce) {
  const auto letters = std::make_shared<const CountedLetters>();
  const auto both = aggregate_tokenizer({{"one", letters}, {"two", letters}});
  const int asked = letters->asked;
  EXPECT_EQ(both->encode("cab"), (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(both->encode("bb"), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(letters->asked, asked);
}

TEST(Letters, OtherSpellings) {
  EXPECT_EQ(other_spellings("new York"), (Pieces{"new york", "NEW YORK", "New York"}));
  EXPECT_EQ(other_spellings("новый"), (Pieces{"НОВЫЙ", "Новый"}));
  EXPECT_EQ(other_spellings("66"), Pieces{});
}

std::string allowed(const Pieces& characters) {
  const auto t = character_tokenizer(
      {"▁the", "é", "да", "7", ".", "<unk>", "▁", "aд", "<0xD0>", "ß", "한", "'s"});
  std::string all;
  for (const bool may : allowed_tokens(*t, 12, characters, "allowed")) all += may ? '1' : '0';
  return all;
}

TEST(Letters, AllowedTokens) {
  EXPECT_EQ(allowed({"latin"}), "110111101101");
  EXPECT_EQ(allowed({"Cyrillic"}), "001111101000");
  EXPECT_EQ(allowed({"latin", "cyrillic"}), "111111111101");
  EXPECT_EQ(allowed({"U+0061-U+007A"}), "100111101001");
  EXPECT_EQ(allowed({"U+0061-u+007a", "U+00E9", "ß"}), "110111101101");
  EXPECT_EQ(allowed({"hangul"}), "000111101010");
}

TEST(Letters, MarksOfNoScriptAreAllowed) {
  // The tokens are two accents of any script, a modifier letter, a mark of Arabic, a vowel sign of
  // Hindi and a mark of kana.
  const auto t = character_tokenizer({"e\u0301", "\u0323", "\u02BC", "\u064B", "\u093F", "\u3099"});
  const auto allowed = [&](const std::string& script) {
    return allowed_tokens(*t, t->size(), {script}, "allowed");
  };
  EXPECT_EQ(allowed("latin"), (std::vector<bool>{true, true, true, false, false, false}));
  EXPECT_EQ(allowed("arabic"), (std::vector<bool>{false, true, true, true, false, false}));
}

TEST(Letters, WhatNamesNoCharacters) {
  const auto fault = [](const Pieces& characters) {
    try {
      allowed(characters);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  for (const char* entry : {"lattin", "", "U+0061-", "U+", "U+0062-U+0061", "ab"})
    EXPECT_NE(fault({entry}).find("allowed: '" + std::string(entry) + "' names no characters"),
              std::string::npos)
        << entry;
  EXPECT_NE(fault({"greek"}).find("none of the model's tokens"), std::string::npos);
}

}  // namespace
}  // namespace rtfx
