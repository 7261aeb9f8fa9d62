// Streams by the fused encoder against those by the reference encoder in float32: no further from
// them than those by the reference encoder in the same 16-bit type are.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "base/error.h"
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

/// Lengths around the ends of windows, frames and chunks, and some seconds, of more streams than
/// slots.
std::vector<Samples> utterances() {
  std::vector<Samples> all;
  for (const int64_t samples : {0, 1, 160, 1279, 1281, 2560, 5120, 5280, 9999, 16000, 31111, 90000})
    all.push_back(test::noise(samples, static_cast<uint64_t>(samples)));
  return all;
}

class FusedStreams : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
  }

  std::shared_ptr<const AcousticModel> fused(const ModelConfig& config) const {
    return test::random_model(config, 7, kGpu, GetParam(), EncoderForm::fused);
  }

  /// All frames of all utterances, one below the other, float32.
  static at::Tensor frames_of(const std::shared_ptr<const AcousticModel>& model) {
    const auto streams = make_encoder_streams(model, {.streams = 5, .rows = 3});
    std::vector<at::Tensor> all;
    for (const test::Streamed& one : test::stream(*streams, utterances(), 5, 3000, 11))
      all.push_back(one.frames.to(at::kFloat));
    return at::cat(all);
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

/// Every kernel, small enough for compute-sanitizer.
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

TEST_P(FusedStreams, EightBits) {
  if (at::cuda::getCurrentDeviceProperties()->major != 9) GTEST_SKIP() << "fp8 wants Hopper";
  const ModelConfig config = streaming_config({6, 2}, 256, 4);
  const Dtypes dtypes{at::kFloat8_e4m3fn, GetParam()};
  Checkpoint checkpoint;
  checkpoint.config = config;
  checkpoint.weights = random_state_dict(config, 7);
  const at::Tensor eight = frames_of(AcousticModel::build(checkpoint, kGpu, dtypes));
  const at::Tensor sixteen = frames_of(fused(config));
  EXPECT_FALSE(eight.equal(sixteen));
  EXPECT_LT((eight - sixteen).abs().mean().item<double>(),
            0.1 * sixteen.abs().mean().item<double>());
}

TEST_P(FusedStreams, RefuseToSeeFurtherThanTheirPositions) {
  const auto model = fused(streaming_config({6, 2}));
  EXPECT_THROW(make_encoder_streams(model, {.att_context_size = {1023, 2}}), UserError);
}

INSTANTIATE_TEST_SUITE_P(Types, FusedStreams, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace rtfx
