// The numbers of parameters of published checkpoints, by the shapes of their layers.
#include <gtest/gtest.h>

#include "models/checkpoint/checkpoint.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

EncoderConfig fast_conformer(int64_t layers, int64_t width) {
  EncoderConfig e;
  e.layers = layers;
  e.width = width;
  e.heads = 8;
  e.conv_kernel = 9;
  return e;
}

/// Counts the parameters of an encoder with one LSTM layer or two of width 640, and 1,024 tokens.
int64_t parameters(const EncoderConfig& encoder, int64_t lstm_layers = 2, bool tdt = false,
                   int64_t mel_bins = 80) {
  ModelConfig config = test::small_config();
  config.has_ctc = false;
  config.prediction.width = config.joint_width = 640;
  config.prediction.layers = lstm_layers;
  config.vocabulary = 1024;
  if (!tdt) config.durations.clear();
  config.encoder = encoder;
  config.features.mel_bins = mel_bins;
  return count_parameters(config);
}

TEST(CountParameters, AreThoseOfPublishedCheckpoints) {
  EXPECT_EQ(parameters(fast_conformer(42, 1024)), 1070432769);           // Parakeet RNN-T 1.1B
  EXPECT_EQ(parameters(fast_conformer(42, 1024), 2, true), 1070435974);  // Parakeet TDT 1.1B
  EXPECT_EQ(parameters(fast_conformer(24, 1024)), 616692225);            // Parakeet RNN-T 0.6B
  EncoderConfig v2 = fast_conformer(24, 1024);
  v2.use_bias = v2.x_scaling = false;
  EXPECT_EQ(parameters(v2, 2, true, 128), 617825926);            // Parakeet TDT 0.6B v2
  EXPECT_EQ(parameters(fast_conformer(17, 512), 1), 114095617);  // FastConformer large
  EncoderConfig conformer = fast_conformer(17, 512);
  conformer.conv_kernel = 31;
  conformer.subsampling_factor = 4;
  conformer.subsampling_channels = 512;
  conformer.depthwise_subsampling = false;
  EXPECT_EQ(parameters(conformer, 1), 120444929);  // Conformer large
}

}  // namespace
}  // namespace rtfx
