// A random encoder with a stand-in: sizes of published encoders, and whose frames the decoder gets.
#include "models/synthetic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/acoustic_model.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

/// The decoders of the published models: two LSTM layers or one of 640, 1024 tokens.
Checkpoint stand_in(int64_t lstm_layers = 2, bool tdt = false) {
  Checkpoint checkpoint;
  checkpoint.config = test::small_config();
  checkpoint.config.has_ctc = false;
  checkpoint.config.prediction.width = checkpoint.config.joint_width = 640;
  checkpoint.config.prediction.layers = lstm_layers;
  checkpoint.config.vocabulary = 1024;
  if (!tdt) checkpoint.config.durations.clear();
  checkpoint.checksum = "s";
  return checkpoint;
}

int64_t parameters(const char* encoder, const Checkpoint& decoder) {
  return synthetic_checkpoint(find_architecture(encoder, ""), decoder, "").parameters;
}

TEST(Architectures, HaveTheSizesOfThePublishedCheckpoints) {
  EXPECT_EQ(parameters("parakeet-1.1b", stand_in()), 1070432769);
  EXPECT_EQ(parameters("parakeet-1.1b", stand_in(2, true)), 1070435974);
  EXPECT_EQ(parameters("parakeet-0.6b", stand_in()), 616692225);
  EXPECT_EQ(parameters("parakeet-0.6b-v2", stand_in(2, true)), 617825926);
  EXPECT_EQ(parameters("fastconformer-large", stand_in(1)), 114095617);
  EXPECT_EQ(parameters("conformer-large", stand_in(1)), 120444929);
}

TEST(Architectures, UnknownOneNamesTheNearest) {
  try {
    find_architecture("parakeet-1.1", "here");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("'parakeet-1.1b'"), std::string::npos) << e.what();
  }
}

/// A small stand-in with weights, alone and behind a random encoder, and what both make of noise.
struct Composition {
  explicit Composition(int64_t factor) {
    Checkpoint small;
    small.config = test::small_config();
    small.weights = random_state_dict(small.config, 7);
    small.checksum = "s";
    alone = AcousticModel::build(small, at::kCPU, at::kFloat);
    Architecture architecture = find_architecture("tiny", "");
    architecture.encoder.subsampling_factor = factor;
    architecture.encoder.depthwise_subsampling = factor == 8;
    checkpoint = synthetic_checkpoint(architecture, small, "");
    composed = AcousticModel::build(checkpoint, at::kCPU, at::kFloat);
    timed = (*composed->encoder)((*composed->features)(audio, lengths));
    frames = composed->frames_for_decoder(timed, audio, lengths);
    expected = (*alone->encoder)((*alone->features)(audio, lengths));
  }

  at::Tensor audio = at::randn({2, 16000}) * 0.1;
  at::Tensor lengths = at::tensor({16000, 9000}, at::kLong);
  Checkpoint checkpoint;
  std::shared_ptr<const AcousticModel> alone, composed;
  Encoded timed, frames, expected;
};

TEST(SyntheticModel, DecoderReadsTheStandInsFrames) {
  const Composition c(8);
  EXPECT_EQ(c.timed.frames.size(2), 32);
  EXPECT_TRUE(at::equal(c.frames.frames, c.expected.frames));
  EXPECT_TRUE(at::equal(c.frames.lengths, c.expected.lengths));
  EXPECT_EQ(c.composed->config.encoded_frames(9000), c.frames.lengths[1].item<int64_t>());
  EXPECT_FALSE(c.alone->stand_in.has_value());
}

TEST(SyntheticModel, FramesAreRepeatedWhereTheEncoderHasMore) {
  const Composition c(4);
  EXPECT_EQ(c.frames.frames.size(1), c.timed.frames.size(1));
  EXPECT_EQ(c.composed->config.encoded_frames(9000), c.frames.lengths[1].item<int64_t>());
  for (int64_t t = 0; t < c.frames.frames.size(1); ++t)
    EXPECT_TRUE(at::equal(c.frames.frames.select(1, t), c.expected.frames.select(1, t / 2))) << t;
}

TEST(SyntheticModel, IsKnownByEncoderAndStandIn) {
  const Architecture& tiny = find_architecture("tiny", "");
  const auto key = [](const Architecture& a, const std::string& sha256) {
    Checkpoint checkpoint = stand_in();
    checkpoint.checksum = sha256;
    return synthetic_checkpoint(a, checkpoint, "").sha256();
  };
  EXPECT_EQ(key(tiny, "s"), key(tiny, "s"));
  EXPECT_NE(key(tiny, "s"), key(tiny, "t"));
  EXPECT_NE(key(tiny, "s"), key(find_architecture("parakeet-0.6b", ""), "s"));
  EXPECT_EQ(stand_in().weights_origin(), "checkpoint");
  EXPECT_EQ(synthetic_checkpoint(tiny, stand_in(), "").weights_origin(), "synthetic");
}

TEST(SyntheticModel, RefusesFramesThatDoNotFit) {
  Checkpoint coarse = stand_in();
  coarse.config.encoder.subsampling_factor = 4;
  EXPECT_THROW(synthetic_checkpoint(find_architecture("tiny", ""), coarse, "c.nemo"), UserError);
}

TEST(WithVocabulary, AddsTokensThatAreNeverChosen) {
  Checkpoint small;
  small.config = test::small_config();
  small.weights = random_state_dict(small.config, 3);
  small.checksum = "s";
  const Checkpoint large = with_vocabulary(small, 100, "");
  EXPECT_EQ(large.config.vocabulary, 100);
  EXPECT_NE(large.sha256(), small.sha256());
  EXPECT_GT(large.parameters, count_parameters(small.config));
  const auto one = AcousticModel::build(small, at::kCPU, at::kFloat);
  const auto other = AcousticModel::build(large, at::kCPU, at::kFloat);
  const auto columns = [](const at::Tensor& logits, int64_t tokens) {  // without the added tokens
    return at::cat({logits.narrow(-1, 0, 20), logits.slice(-1, tokens)}, -1);
  };
  const at::Tensor hidden = at::randn({7, small.config.joint_width});
  const at::Tensor zero = at::zeros_like(hidden);
  const at::Tensor wide = other->joint->logits(hidden, zero);
  EXPECT_EQ(wide.size(1), 100 + 1 + 5);
  EXPECT_TRUE(at::allclose(columns(wide, 100), one->joint->logits(hidden, zero), 1e-5, 1e-5));
  EXPECT_LT(wide.narrow(1, 20, 80).max().item<float>(), wide.narrow(1, 100, 1).min().item<float>());
  const at::Tensor blank = at::tensor({20}, at::kLong), wide_blank = at::tensor({100}, at::kLong);
  EXPECT_TRUE(
      at::equal(one->prediction->step(blank, one->prediction->initial_state(1)).output,
                other->prediction->step(wide_blank, other->prediction->initial_state(1)).output));
  EXPECT_THROW(with_vocabulary(small, 19, ""), UserError);
}

TEST(WithStatelessPrediction, KnowsTheLastLabelAlone) {
  Checkpoint lstm;
  lstm.config = test::small_config();
  lstm.weights = random_state_dict(lstm.config, 3);
  lstm.checksum = "s";
  const auto model = AcousticModel::build(lstm, at::kCPU, at::kFloat);
  const auto made = AcousticModel::build(with_stateless_prediction(lstm, ""), at::kCPU, at::kFloat);
  const at::Tensor labels = at::tensor({3, 20, 0}, at::kLong);
  const auto from_zero = model->prediction->step(labels, model->prediction->initial_state(3));
  auto step =
      made->prediction->step(at::tensor({1, 2, 4}, at::kLong), made->prediction->initial_state(3));
  step = made->prediction->step(labels, step.state);
  EXPECT_TRUE(at::allclose(step.output, from_zero.output, 1e-5, 1e-6));
  EXPECT_THROW(with_stateless_prediction(with_stateless_prediction(lstm, ""), ""), UserError);
}

}  // namespace
}  // namespace rtfx
