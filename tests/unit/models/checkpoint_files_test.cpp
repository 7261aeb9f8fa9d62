// Tests checkpoints in other forms than a whole `.nemo` file, and weights that are damaged.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "models/acoustic_model.h"
#include "models/formats/archive.h"
#include "models/formats/torch_weights.h"
#include "models/load_checkpoint.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;
using test::user_error;

const fs::path kCheckpoints = "tests/data/checkpoints";

class CheckpointFiles : public test::TempFolder {
 protected:
  fs::path unpacked(const std::string& name) const {
    const auto file = MappedFile::open(kCheckpoints / name);
    const auto members = read_archive(file->bytes(), ArchiveFormat::tar, name,
                                      [](const std::string&) { return true; });
    for (const auto& [member, contents] : members)
      write("model/" + member, std::string(contents.bytes));
    return path("model");
  }
};

TEST_F(CheckpointFiles, AnUnpackedArchiveIsTheSameModel) {
  const Checkpoint folder = load_checkpoint(unpacked("tiny_tdt.nemo"));
  const Checkpoint archive = load_checkpoint(kCheckpoints / "tiny_tdt.nemo");
  EXPECT_EQ(folder.parameters, archive.parameters);
  EXPECT_GT(folder.files.size(), 2U);  // with the tokenizer's files, which the checksum covers
  EXPECT_EQ(folder.tokenizer->size(), archive.tokenizer->size());
  ASSERT_EQ(folder.weights.size(), archive.weights.size());
  for (const auto& [name, tensor] : archive.weights)
    EXPECT_TRUE(at::equal(folder.weights.at(name), tensor)) << name;
}

TEST_F(CheckpointFiles, WeightsAloneSayHowToConvertThem) {
  const fs::path folder = unpacked("tiny_tdt.nemo");
  fs::copy(folder / "model_weights.ckpt", path("light.ckpt"));
  EXPECT_HAS(user_error([&] { load_checkpoint(path("light.ckpt")); }),
             "light.ckpt: holds weights alone");
  EXPECT_HAS(user_error([&] { load_checkpoint(path("light.ckpt")); }), "save_to(\"model.nemo\")");
  EXPECT_HAS(user_error([&] { load_checkpoint(write("model.safetensors", "{}")); }),
             "give the folder");
}

TEST_F(CheckpointFiles, WrappersOfTrainingAreNoPartOfAName) {
  const at::Tensor one = at::ones({1});
  const StateDict renamed = rename_tensors({{"module.encoder.a", one},
                                            {"_orig_mod.module.joint.b", one},
                                            {"encoder._orig_mod.layers.0.c", one},
                                            {"decoder.module.d", one}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : renamed) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"decoder.module.d", "encoder.a", "encoder.layers.0.c",
                                             "joint.b"}));
}

TEST_F(CheckpointFiles, APreemphasisOfNullIsOff) {
  const auto preemphasis = [&](const std::string& value) {
    fs::remove_all(path("hf"));
    fs::copy(kCheckpoints / "tiny_hf_ctc", path("hf"));
    for (const char* name : {"processor_config.json", "preprocessor_config.json"}) {
      if (!fs::exists(path("hf") / name)) continue;
      auto settings = nlohmann::json::parse(read_text(path("hf") / name));
      auto& features =
          settings.contains("feature_extractor") ? settings["feature_extractor"] : settings;
      features.erase("preemphasis");
      if (!value.empty()) features["preemphasis"] = nlohmann::json::parse(value);
      std::ofstream(path("hf") / name) << settings;
    }
    return load_checkpoint(path("hf")).config.features.preemphasis;
  };
  EXPECT_EQ(preemphasis("null"), 0);
  EXPECT_EQ(preemphasis("0.5"), 0.5);
  EXPECT_EQ(preemphasis(""), 0.97);
}

/// Changes a line of the YAML in an unpacked archive.
void replace_in_yaml(const fs::path& folder, const std::string& from, const std::string& to) {
  std::string yaml = read_text(folder / "model_config.yaml");
  ASSERT_NE(yaml.find(from), std::string::npos);
  yaml.replace(yaml.find(from), from.size(), to);
  std::ofstream(folder / "model_config.yaml") << yaml;
}

TEST_F(CheckpointFiles, NemosOwnPatternOfLanguageTagsMayBeWritten) {
  const fs::path folder = unpacked("tiny_prompt.nemo");
  const std::string strips = "strip_lang_tags: true", pattern = "lang_tag_pattern: ";
  const auto before = load_checkpoint(folder).notices;
  replace_in_yaml(folder, strips, strips + "\n  " + pattern + R"('\s*<[a-z]{2}-[A-Z]{2}>')");
  EXPECT_EQ(load_checkpoint(folder).notices, before);
  replace_in_yaml(folder, "<[a-z]{2}", "<[a-z]{3}");
  const auto notices = load_checkpoint(folder).notices;
  ASSERT_EQ(notices.size(), before.size() + 1);
  EXPECT_HAS(notices.back(), "decoding.lang_tag_pattern");
}

TEST_F(CheckpointFiles, ATokenizerOfAnotherClassIsRefused) {
  const fs::path folder = unpacked("tiny_tdt.nemo");
  replace_in_yaml(folder, "\ntokenizer:\n", "\ntokenizer:\n  custom_tokenizer: null\n");
  EXPECT_NO_THROW(load_checkpoint(folder));
  replace_in_yaml(folder, "custom_tokenizer: null", "custom_tokenizer: {_target_: my.Tokenizer}");
  EXPECT_HAS(user_error([&] { load_checkpoint(folder); }),
             "unsupported setting tokenizer.custom_tokenizer");
}

TEST_F(CheckpointFiles, AnUnknownActivationIsRefusedBeforeAnyHeadIsMade) {
  const fs::path folder = unpacked("tiny_tdt.nemo");
  replace_in_yaml(folder, "activation: relu", "activation: gelu");
  EXPECT_HAS(user_error([&] { load_checkpoint(folder); }),
             "unsupported setting joint.jointnet.activation");
}

TEST_F(CheckpointFiles, TheConfigOfATokenizerIsRead) {
  fs::copy(kCheckpoints / "tiny_hf_ctc", path("hf"));
  const auto file = path("hf") / "tokenizer_config.json";
  auto settings = nlohmann::json::parse(read_text(file));
  const auto text = [&] {
    std::ofstream(file) << settings;
    std::vector<int32_t> ids(60);
    std::iota(ids.begin(), ids.end(), 0);
    return load_checkpoint(path("hf")).tokenizer->text(ids);
  };
  const std::string letter = load_checkpoint(path("hf")).tokenizer->piece(2);
  const std::string whole = text();
  settings["sep_token"] = letter;
  EXPECT_LT(text().size(), whole.size());
}

TEST_F(CheckpointFiles, MoreSymbolsThanADecoderMayHaveCountAsItsMost) {
  fs::copy(kCheckpoints / "tiny_hf_nemotron", path("hf"));
  const auto symbols = [&](int64_t stated) {
    auto settings = nlohmann::json::parse(read_text(path("hf") / "config.json"));
    settings["max_symbols_per_step"] = stated;
    std::ofstream(path("hf") / "config.json") << settings;
    return load_checkpoint(path("hf")).config.max_symbols;
  };
  EXPECT_EQ(symbols(7), 7);
  EXPECT_EQ(symbols(2000), kMostSymbols);
  EXPECT_HAS(user_error([&] { symbols(0); }), "config.json#/max_symbols_per_step");
}

TEST_F(CheckpointFiles, AWeightThatIsNoNumberNamesItsTensor) {
  const auto error_with = [&](const std::string& name, at::ScalarType type, double value) {
    Checkpoint checkpoint = load_checkpoint(kCheckpoints / "tiny_tdt.nemo");
    at::Tensor& weight = checkpoint.weights.at(name);
    weight = weight.to(type).clone();
    weight.view(-1)[weight.numel() - 1] = value;
    return user_error([&] { AcousticModel::build(checkpoint, at::kCPU, at::kFloat); });
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string place = "tiny_tdt.nemo: tensor 'encoder.layers.0.norm_out.weight' holds ";
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    EXPECT_HAS(error_with("encoder.layers.0.norm_out.weight", type, NAN), place + "nan at element");
    EXPECT_HAS(error_with("encoder.layers.0.norm_out.weight", type, -infinity),
               place + "-inf at element");
    EXPECT_EQ(error_with("encoder.layers.0.norm_out.weight", type, 6e4), "");
  }
  EXPECT_HAS(error_with("joint.joint_net.weight", at::kFloat, infinity),
             "'joint.joint_net.weight'");
}

}  // namespace
}  // namespace rtfx
