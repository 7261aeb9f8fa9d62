// Tests of damaged tokenizers and of the damaged YAML of a checkpoint. Each tokenizer that can
// still be read must turn every id into text.
#include <algorithm>

#include "models/formats/archive.h"
#include "models/formats/torch_weights.h"
#include "models/settings/config_reader.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/sentencepiece.h"
#include "models/tokenizers/tokenizer_json.h"
#include "tests/mutations/mutate.h"

namespace rtfx {
namespace {

constexpr const char* kCheckpoints = "tests/data/checkpoints/";

void use(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    tokenizer.piece(id);
    ids.push_back(id);
  }
  tokenizer.text(ids);
  std::reverse(ids.begin(), ids.end());
  tokenizer.text(ids);
}

/// Returns the member of a tar whose name has this ending.
std::string member(const std::string& archive, const std::string& ending) {
  const std::string bytes = file_bytes(archive);
  for (const auto& [name, found] :
       read_archive(bytes, ArchiveFormat::tar, "test", [](const std::string&) { return true; }))
    if (name.ends_with(ending)) return std::string(found.bytes);
  throw std::runtime_error("no " + ending);
}

class SentencePieceMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePieceMutation, IsReadOrRefused) {
  const std::string bytes = file_bytes(std::string("tests/data/") + GetParam() + ".model");
  const Counts counts = mutate(bytes, {}, 3'000, [](const std::string& damaged) {
    use(*sentencepiece_tokenizer(damaged, "test"));
  });
  EXPECT_GT(counts.read, scaled(50));
  EXPECT_GT(counts.refused, scaled(500));
}

INSTANTIATE_TEST_SUITE_P(Files, SentencePieceMutation, ::testing::Values("pieces", "byte_pieces"),
                         [](const auto& info) { return info.param; });

TEST(WordPieceMutation, IsReadOrRefused) {
  const std::string bytes = member(std::string(kCheckpoints) + "tiny_wpe.nemo", "vocab.txt");
  const Counts counts = mutate(bytes, {}, 5'000, [](const std::string& damaged) {
    use(*wordpiece_tokenizer(damaged, "test"));
  });
  EXPECT_GT(counts.read, scaled(500));
}

class TokenizerJsonMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerJsonMutation, IsReadOrRefused) {
  const std::string bytes = file_bytes(kCheckpoints + std::string(GetParam()) + "/tokenizer.json");
  const Counts counts = mutate(bytes, {}, 3'000, [](const std::string& damaged) {
    use(*tokenizer_json(damaged, -1, "test"));
  });
  EXPECT_GT(counts.read, scaled(50));
  EXPECT_GT(counts.refused, scaled(500));
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerJsonMutation,
                         ::testing::Values("tiny_hf_ctc", "tiny_hf_tdt", "tiny_hf_nemotron"),
                         [](const auto& info) { return info.param; });

class YamlMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(YamlMutation, IsReadOrRefused) {
  const std::string archive = kCheckpoints + std::string(GetParam()) + ".nemo";
  const auto packed = std::make_shared<const std::string>(member(archive, "model_weights.ckpt"));
  const StateDict weights = rename_tensors(read_torch_weights({*packed, nullptr, packed}, "test"));
  const Counts counts =
      mutate(member(archive, "model_config.yaml"), {}, 2'500, [&](const std::string& damaged) {
        std::vector<std::string> notices;
        read_config(YamlView(damaged, "test"), weights, notices);
      });
  EXPECT_GT(counts.read, scaled(500));
  EXPECT_GT(counts.refused, scaled(500));
}

INSTANTIATE_TEST_SUITE_P(Files, YamlMutation, ::testing::Values("tiny_streaming", "tiny_wpe"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rtfx
