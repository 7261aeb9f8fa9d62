// The expected texts are those of transformers 5.23 (tokenizers 0.23.3) with skip_special_tokens.
#include "models/tokenizers/tokenizer_json.h"

#include <gtest/gtest.h>

#include "tests/support/user_error.h"

namespace rtfx {
namespace {

using Ids = std::vector<int32_t>;

const std::string kMetaspace =
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})";
const std::string kBytes = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
const std::string kModel = R"({"type": "BPE", "unk_token": "<unk>", "vocab": {"<unk>": 0, "▁he": 1,
    "llo": 2, "▁": 3, ".": 4, "<|en|>": 5, "<0xC3>": 6, "<0xA9>": 7}, "merges": [["l", "lo"]]})";
const std::string kAdded = R"([{"id": 0, "content": "<unk>", "special": true},
    {"id": 5, "content": "<|en|>", "special": false}, {"id": 8, "content": "<pad>", "special": true},
    {"id": 9, "content": "<blank>", "special": true}])";

std::shared_ptr<const Tokenizer> load(const std::string& decoder, int64_t vocabulary = 8,
                                      const std::string& model = kModel,
                                      const std::string& added = kAdded) {
  return tokenizer_json(R"({"version": "1.0", "added_tokens": )" + added + R"(, "decoder": )" +
                            decoder + R"(, "model": )" + model + "}",
                        vocabulary, "tokenizer.json");
}

TEST(TokenizerJson, ReadsTheVocabulary) {
  const auto t = load(kMetaspace);
  EXPECT_EQ(t->kind(), "tokenizer.json");
  EXPECT_EQ(t->size(), 8);
  EXPECT_EQ(t->unknown(), 0);
  EXPECT_EQ(t->piece(1), "▁he");
  EXPECT_EQ(load(kMetaspace, 9)->size(), 9);
  EXPECT_EQ(load(kMetaspace, -1)->size(), 8);
}

TEST(TokenizerJson, WritesWhatTransformersWrites) {
  const auto metaspace = load(kMetaspace);
  EXPECT_EQ(metaspace->text({}), "");
  EXPECT_EQ(metaspace->text(Ids{1, 2, 3, 4}), "hello .");
  EXPECT_EQ(metaspace->text(Ids{3, 1, 0, 1}), " he he");
  EXPECT_EQ(metaspace->text(Ids{5, 1}), "<|en|> he");
  EXPECT_EQ(metaspace->text(Ids{6, 7, 1}), "<0xC3><0xA9> he");

  const auto bytes = load(kBytes);
  EXPECT_EQ(bytes->text({}), "");
  EXPECT_EQ(bytes->text(Ids{3, 1, 0, 1}), " he he");
  EXPECT_EQ(bytes->text(Ids{6, 7, 1}), "é he");
  EXPECT_EQ(bytes->text(Ids{1, 6, 4}), "he\uFFFD.");

  const auto words = load(R"({"type": "WordPiece", "prefix": "▁", "cleanup": true})");
  EXPECT_EQ(words->text(Ids{1, 2, 3, 4}), "▁he llo.");
  EXPECT_EQ(words->text(Ids{6, 7, 1}), "<0xC3> <0xA9>he");
  EXPECT_EQ(load("null")->text(Ids{1, 2, 3, 4}), "▁he llo ▁ .");
  EXPECT_EQ(load(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})")
                ->text(Ids{1, 2, 1}),
            " hello he");
}

/// The expected texts are those of transformers 5.24.
TEST(TokenizerJson, FollowsTheConfigBesideIt) {
  const std::string unigram = R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0],
      ["▁he", -1.0], ["▁.", -1.0], ["▁n't", -1.0], ["<pad>", -1.0], ["<|en|>", -1.0]]})";
  const std::string added = R"([{"id": 4, "content": "<pad>", "special": false},
      {"id": 5, "content": "<|en|>", "special": false}])";
  const auto text = [&](const std::string& config, const std::string& model) {
    return tokenizer_json(R"({"added_tokens": )" + added + R"(, "decoder": )" + kMetaspace +
                              R"(, "model": )" + model + "}",
                          6, "tokenizer.json", config)
        ->text(Ids{1, 2, 0, 3, 4, 5});
  };
  EXPECT_EQ(text("", unigram), "he .<unk> n't<pad><|en|>");
  EXPECT_EQ(text("{}", unigram), "he .<unk> n't<pad><|en|>");
  EXPECT_EQ(text(R"({"clean_up_tokenization_spaces": true})", unigram), "he.<unk>n't<pad><|en|>");
  EXPECT_EQ(text(R"({"clean_up_tokenization_spaces": false, "unk_token": "<unk>",
                     "pad_token": {"content": "<pad>"}, "extra_special_tokens": ["<|en|>"]})",
                 unigram),
            "he . n't<|en|>");  // tokenizer.json says that <|en|> is not special
  const std::string bpe = R"({"type": "BPE", "vocab": {"<unk>": 0, "▁he": 1, "▁.": 2, "▁n't": 3,
      "<pad>": 4, "<|en|>": 5}, "merges": []})";
  EXPECT_EQ(text(R"({"clean_up_tokenization_spaces": true})", bpe), "he .<unk> n't<pad><|en|>");
  EXPECT_HAS(test::user_error([&] { text(R"({"unk_token": 7})", unigram); }),
             "tokenizer_config.json: is damaged");
  EXPECT_HAS(test::user_error([&] { text(std::string(40, '[') + std::string(40, ']'), unigram); }),
             "tokenizer_config.json: JSON nested too deeply");
}

TEST(TokenizerJson, ReadsOtherModels) {
  const auto unigram = load(kMetaspace, 2, R"({"type": "Unigram", "unk_id": 1,
      "vocab": [["▁a", -1.0], ["<unk>", 0.0]]})",
                            "[]");
  EXPECT_EQ(unigram->unknown(), 1);
  EXPECT_EQ(unigram->text(Ids{0, 0, 1}), "a a<unk>");
  EXPECT_EQ(load(kMetaspace, 1, R"({"type": "Unigram", "unk_id": null, "vocab": [["a", 0]]})", "[]")
                ->unknown(),
            -1);
  EXPECT_EQ(
      load("null", 2, R"({"type": "WordLevel", "unk_token": "?", "vocab": {"a": 1, "?": 0}})", "[]")
          ->text(Ids{1, 0}),
      "a ?");
}

TEST(TokenizerJson, RefusesWhatItDoesNotKnow) {
  const auto complaint = [](const std::string& decoder, int64_t vocabulary = 8,
                            const std::string& model = kModel, const std::string& added = kAdded) {
    return test::user_error([&] { load(decoder, vocabulary, model, added); });
  };
  const auto names = [](const std::string& message, const std::string& part) {
    EXPECT_EQ(message.find("tokenizer.json: "), 0u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  names(complaint(R"({"type": "CTC"})"), "'CTC'");
  names(complaint("3"), "not a tokenizer");
  names(complaint(R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""})"), "regular");
  names(complaint(R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})"), "regular");
  names(complaint(R"({"type": "Metaspace", "replacement": "ab"})"), "replacement");
  names(complaint(R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"), "start");
  names(complaint(R"({"type": "Sequence", "decoders": [)" + kBytes + "]}"), "Sequence in");
  names(complaint(kMetaspace, 11), "no piece 10, the model 11 tokens");
  names(complaint(kMetaspace, int64_t{1} << 60), "do not belong together");
  names(complaint(kMetaspace, 0), "no pieces");
  names(complaint(kMetaspace, 1, R"({"type": "Unigrams", "vocab": {}})"), "'Unigrams'");
  names(complaint(kMetaspace, 1, R"({"type": "BPE", "vocab": {"a": 1}})", "[]"), "no piece 0");
  names(complaint(kMetaspace, 1, R"({"type": "BPE", "vocab": {"a": 0, "b": 0}})"), "same id 0");
  names(complaint(kMetaspace, 1, R"({"type": "BPE", "vocab": {"a": -1}})"), "no proper id");
  names(complaint(kMetaspace, 1, R"({"type": "BPE", "vocab": {"a": 1e9}})"), "no proper id");
  names(complaint(kMetaspace, 1, R"({"type": "BPE", "vocab": {"a": 4294967296}})"), "no proper id");
  names(complaint(kMetaspace, 1, R"({"type": "Unigram", "unk_id": 7, "vocab": [["a", 0]]})", "[]"),
        "unk_id");
  names(complaint(kMetaspace, 1, R"({"type": "BPE"})"), "vocab");
}

TEST(TokenizerJson, RefusesDamage) {
  const auto complaint = [](const std::string& json) {
    return test::user_error([&] { tokenizer_json(json, -1, "t.json"); });
  };
  EXPECT_EQ(complaint("").find("t.json: not JSON"), 0u);
  EXPECT_EQ(complaint("[]").find("t.json: not a tokenizer"), 0u);
  EXPECT_EQ(complaint("{\"model\": \"\xFF\"}").find("t.json: not JSON"), 0u);
  EXPECT_NE(complaint(std::string(1 << 20, '[')).find("too deeply"), std::string::npos);
  EXPECT_NE(complaint(std::string(size_t{33} << 20, ' ')).find("too many"), std::string::npos);
}

}  // namespace
}  // namespace rtfx
