// Tests the sizes of published encoders.
#include "models/architectures.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

/// Returns the decoder of the published models: one or two LSTM layers of 640, and 1024 tokens.
ModelConfig decoder(int64_t lstm_layers = 2, bool tdt = false) {
  ModelConfig config = test::small_config();
  config.has_ctc = false;
  config.prediction.width = config.joint_width = 640;
  config.prediction.layers = lstm_layers;
  config.vocabulary = 1024;
  if (!tdt) config.durations.clear();
  return config;
}

int64_t parameters(const char* encoder, ModelConfig config) {
  const Architecture& architecture = find_architecture(encoder, "");
  config.encoder = architecture.encoder;
  config.features.mel_bins = architecture.mel_bins;
  return count_parameters(config);
}

TEST(Architectures, HaveTheSizesOfThePublishedCheckpoints) {
  EXPECT_EQ(parameters("parakeet-1.1b", decoder()), 1070432769);
  EXPECT_EQ(parameters("parakeet-1.1b", decoder(2, true)), 1070435974);
  EXPECT_EQ(parameters("parakeet-0.6b", decoder()), 616692225);
  EXPECT_EQ(parameters("parakeet-0.6b-v2", decoder(2, true)), 617825926);
  EXPECT_EQ(parameters("fastconformer-large", decoder(1)), 114095617);
  EXPECT_EQ(parameters("conformer-large", decoder(1)), 120444929);
}

TEST(Architectures, UnknownOneNamesTheNearest) {
  try {
    find_architecture("parakeet-1.1", "here");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("'parakeet-1.1b'"), std::string::npos) << e.what();
  }
}

TEST(Architectures, RandomEncodersAreEqualAndComplete) {
  ModelConfig config = test::small_config();
  config.encoder = find_architecture("tiny", "").encoder;
  const StateDict weights = random_encoder(config), again = random_encoder(config);
  ASSERT_EQ(weights.size(), again.size());
  for (const auto& [name, tensor] : weights) {
    EXPECT_TRUE(name.starts_with("encoder.") || name.starts_with("preprocessor.")) << name;
    EXPECT_TRUE(at::equal(tensor, again.at(name))) << name;
  }
}

}  // namespace
}  // namespace rtfx
