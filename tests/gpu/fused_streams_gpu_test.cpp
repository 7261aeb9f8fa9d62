// Compares streams of the fused encoder with those of the reference encoder in float32. They
// deviate no more than the reference encoder's in the same 16-bit type. In fp8 they are close to
// those in 16 bits.
#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "speech/pipeline/recorded_encoder.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"
#include "tests/support/stream_runs.h"

namespace rtfx {
namespace {

using test::Samples;

const at::Device kGpu(at::kCUDA, 0);

ModelConfig streaming_config(const std::vector<int64_t>& context, int64_t width = 64,
                             int64_t heads = 4) {
  ModelConfig config = test::small_config();
  test::streaming(config);
  select_context(config, context, "test");
  config.encoder.width = width;
  config.encoder.heads = heads;
  config.encoder.subsampling_channels = 16;
  return config;
}

/// Returns more utterances than slots: with lengths around the ends of windows, frames and chunks,
/// and with lengths up to some seconds.
std::vector<Samples> utterances() {
  std::vector<Samples> all;
  for (const int64_t samples : {0, 1, 160, 1279, 1281, 2560, 5120, 5280, 9999, 16000, 31111, 90000})
    all.push_back(test::noise(samples, static_cast<uint64_t>(samples)));
  return all;
}

/// Streams all utterances, and returns all frames as one tensor [frames, width] in float32.
at::Tensor frames_of(const std::shared_ptr<const AcousticModel>& model,
                     const StreamOptions& options = {.streams = 5, .rows = 3},
                     const std::vector<Samples>& audio = utterances()) {
  const auto streams = make_encoder_streams(model, options);
  std::vector<at::Tensor> all;
  for (const test::Streamed& one : test::stream(*streams, audio, 5, 3000, 11))
    all.push_back(one.frames.to(at::kFloat));
  return at::cat(all);
}

class FusedStreams : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
  }

  std::shared_ptr<const AcousticModel> fused(const ModelConfig& config, uint64_t seed = 7) const {
    return test::random_model(config, seed, kGpu, GetParam(), EncoderForm::fused);
  }

  void expect_no_worse(const ModelConfig& config, const std::string& what) const {
    const auto reference = [&](at::ScalarType dtype) {
      return frames_of(test::random_model(config, 7, kGpu, dtype, EncoderForm::reference));
    };
    const at::Tensor exact = reference(at::kFloat);
    const at::Tensor plain = (reference(GetParam()) - exact).abs();
    const at::Tensor found = (frames_of(fused(config)) - exact).abs();
    EXPECT_TRUE(found.isfinite().all().item<bool>()) << what;
    EXPECT_LE(found.mean().item<double>(), 1.1 * plain.mean().item<double>()) << what;
    EXPECT_LE(found.max().item<double>(), 1.5 * plain.max().item<double>()) << what;
  }

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

TEST_P(FusedStreams, EveryContext) {
  for (const std::vector<int64_t>& context : std::vector<std::vector<int64_t>>{
           {6, 2}, {4, 0}, {14, 13}, {0, 3}, {70, 13}, {70, 6}, {700, 6}})
    expect_no_worse(streaming_config(context),
                    std::to_string(context[0]) + ", " + std::to_string(context[1]));
}

TEST_P(FusedStreams, EveryWidthAndKind) {
  for (const auto& [width, heads] :
       {std::pair{1024, 8}, std::pair{512, 8}, std::pair{256, 2}, std::pair{176, 4}})
    expect_no_worse(streaming_config({6, 2}, width, heads), std::to_string(width));
  const std::vector<test::Variant> kinds = {
      {"batch norm", test::norm(EncoderConfig::ConvolutionNorm::batch)},
      {"short kernel", [](ModelConfig& c) { c.encoder.conv_kernel = 5; }},
      {"kernel longer than steps", [](ModelConfig& c) { c.encoder.conv_kernel = 31; }},
      {"striding by 4", test::front_end(false, true, 4)},
      {"depthwise by 4", test::front_end(true, true, 4)},
      {"output map", [](ModelConfig& c) { c.encoder.output_width = 24; }}};
  for (const test::Variant& kind : kinds) {
    ModelConfig config = streaming_config({6, 2});
    kind.change(config);
    expect_no_worse(config, kind.name);
  }
}

/// Runs every kernel once. The test is small enough for compute-sanitizer.
TEST_P(FusedStreams, EveryKernelOnce) {
  for (const auto& [width, heads] : {std::pair{256, 2}, std::pair{128, 2}, std::pair{176, 4}}) {
    ModelConfig config = streaming_config({6, 2}, width, heads);
    config.encoder.layers = 1;
    const auto streams = make_encoder_streams(fused(config), {.streams = 2, .rows = 2});
    const std::vector<Samples> two = {test::noise(9000, 1), test::noise(5000, 2)};
    for (const test::Streamed& one : test::stream(*streams, two, 2, 9000, 3))
      EXPECT_TRUE(one.frames.isfinite().all().item<bool>()) << width;
  }
}

TEST_P(FusedStreams, DependOnNothingBesideThem) {
  test::expect_independent(fused(streaming_config({6, 2})), utterances());
}

TEST_P(FusedStreams, WhatAStreamLeavesBehindIsNotSeenByTheNext) {
  const auto model = fused(streaming_config({6, 2}));
  const auto streams = make_encoder_streams(model, {});
  Samples loud = test::noise(40000, 1);
  for (float& sample : loud) sample *= 1000;
  const Samples audio = test::noise(20000, 2);
  const auto run = [&](const Samples& one) {
    return test::stream(*streams, {one}, 1, 1000, 3)[0].frames;
  };
  const at::Tensor fresh = run(audio);
  EXPECT_GT(test::largest(run(loud).narrow(0, 0, fresh.size(0)), fresh), 0.1);
  EXPECT_TRUE(fresh.equal(run(audio)));
}

TEST_P(FusedStreams, RefuseToSeeFurtherThanTheirPositions) {
  const auto model = fused(streaming_config({6, 2}));
  EXPECT_THROW(make_encoder_streams(model, {.att_context_size = {1023, 2}}), UserError);
}

/// Most matrix products of the encoder are in fp8, and all else is in the 16-bit type.
class StreamFp8 : public FusedStreams {
 protected:
  void SetUp() override {
    FusedStreams::SetUp();
    if (!IsSkipped() && at::cuda::getCurrentDeviceProperties()->major != 9)
      GTEST_SKIP() << "fp8 wants Hopper";
  }

  std::shared_ptr<const AcousticModel> eight(const ModelConfig& config, uint64_t seed = 7) const {
    return test::random_model(config, seed, kGpu, {at::kFloat8_e4m3fn, GetParam()});
  }

  /// Expects the distance that docs/background/gpu.md states.
  static void expect_close(const at::Tensor& found, const at::Tensor& expected,
                           const std::string& what) {
    ASSERT_EQ(found.sizes(), expected.sizes()) << what;
    EXPECT_TRUE(found.isfinite().all().item<bool>()) << what;
    EXPECT_LT((found - expected).abs().mean().item<double>(),
              0.1 * expected.abs().mean().item<double>())
        << what;
  }
};

TEST_P(StreamFp8, FramesAreCloseToThoseIn16Bits) {
  for (const auto& [width, heads] : {std::pair{256, 4}, std::pair{1024, 8}}) {
    for (const std::vector<int64_t>& context :
         std::vector<std::vector<int64_t>>{{6, 2}, {4, 0}, {70, 13}}) {
      const ModelConfig config = streaming_config(context, width, heads);
      const at::Tensor found = frames_of(eight(config)), expected = frames_of(fused(config));
      expect_close(found, expected, fmt::format("{} wide, {}, {}", width, context[0], context[1]));
      EXPECT_FALSE(found.equal(expected)) << "nothing was computed in fp8";
    }
  }
}

TEST_P(StreamFp8, BuffersAreCloseToThoseIn16Bits) {
  const ModelConfig config = streaming_config({6, 2}, 256, 4);
  const StreamOptions options{
      .streams = 5, .rows = 3, .buffer = BufferSeconds{.chunk = 0.4, .left = 0.8, .right = 0.2}};
  expect_close(frames_of(eight(config), options), frames_of(fused(config), options), "buffers");
}

TEST_P(StreamFp8, FramesAreCloseToThoseOfWholeUtterances) {
  const auto model = eight(streaming_config({6, 2}, 256, 4));
  std::vector<Samples> audio = utterances();
  std::erase_if(audio, [](const Samples& one) { return one.size() < 1280; });
  std::vector<at::Tensor> whole;
  for (const Samples& one : audio) whole.push_back(test::whole(*model, one).to(at::kFloat));
  expect_close(frames_of(model, {.streams = 5, .rows = 3}, audio), at::cat(whole), "whole");
}

/// The best label of a frame from the CTC head depends on no other frame. Prints how many labels
/// are equal.
TEST_P(StreamFp8, MostLabelsAreThoseIn16Bits) {
  const ModelConfig config = streaming_config({6, 2}, 256, 4);
  const auto labels_of = [](const std::shared_ptr<const AcousticModel>& model) {
    return model->ctc_head->logits(frames_of(model).to(model->dtype).unsqueeze(0))[0].argmax(-1);
  };
  int64_t equal = 0, all = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const at::Tensor expected = labels_of(fused(config, seed));
    equal += labels_of(eight(config, seed)).eq(expected).sum().item<int64_t>();
    all += expected.size(0);
  }
  fmt::print("{} of {} labels are equal\n", equal, all);
  EXPECT_GT(10 * equal, 8 * all);
}

/// A louder stream beside another has larger values, which would change a scale that both shared.
TEST_P(StreamFp8, DependOnNothingBesideThem) {
  std::vector<Samples> all = utterances();
  all.push_back(test::noise(40000, 1));
  for (float& sample : all.back()) sample *= 1000;
  for (const auto& [width, heads] : {std::pair{256, 4}, std::pair{1024, 8}})
    test::expect_independent(eight(streaming_config({6, 2}, width, heads)), all);
}

/// If each step has one frame per stream, a product has as many rows as the step.
TEST_P(StreamFp8, StepsOfFewRowsAreCloseToFullOnes) {
  for (const auto& [width, heads] : {std::pair{256, 4}, std::pair{1024, 8}}) {
    const auto model = eight(streaming_config({4, 0}, width, heads));
    expect_close(frames_of(model, {.streams = 5, .rows = 3, .fewer_rows = {1, 2}}),
                 frames_of(model), fmt::format("{} wide", width));
  }
}

TEST_P(StreamFp8, RecordedStepsEqualLaunchedOnes) {
  for (const auto& [width, heads] : {std::pair{256, 4}, std::pair{1024, 8}}) {
    const auto model = eight(streaming_config({6, 2}, width, heads));
    for (const std::vector<int64_t>& fewer : std::vector<std::vector<int64_t>>{{}, {1, 2}}) {
      StreamOptions options{.streams = 5, .rows = 3, .fewer_rows = fewer};
      const at::Tensor launched = frames_of(model, options);
      options.recorder = record_step;
      EXPECT_TRUE(frames_of(model, options).equal(launched)) << width << ' ' << fewer.size();
    }
  }
}

const auto kTypes = testing::Values(at::kBFloat16, at::kHalf);
std::string type_name(const testing::TestParamInfo<at::ScalarType>& info) {
  return c10::toString(info.param);
}
INSTANTIATE_TEST_SUITE_P(Types, FusedStreams, kTypes, type_name);
INSTANTIATE_TEST_SUITE_P(Types, StreamFp8, kTypes, type_name);

}  // namespace
}  // namespace rtfx
