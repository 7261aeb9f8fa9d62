// Tests streams on buffers of audio against NeMo's bookkeeping, step by step.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"
#include "tests/support/stream_runs.h"

namespace rtfx {
namespace {

using test::Samples;

constexpr int64_t kFrame = 1280;  // samples of an encoder frame

std::vector<Samples> utterances() {
  std::vector<Samples> all;
  for (const int64_t samples : {1, 1279, 1280, 5000, 10240, 10241, 15359, 15360, 15361, 16000,
                                20480, 25601, 33333, 40960, 47000})
    all.push_back(test::noise(samples, static_cast<uint64_t>(samples)));
  return all;
}

/// Chunks of 0.4 s with and without context, and chunks of one frame, in seconds and in samples.
const std::vector<std::pair<BufferSeconds, test::NemoBuffer>> kContexts = {
    {{.chunk = 0.4, .left = 0.88, .right = 0.3}, {11 * kFrame, 5 * kFrame, 3 * kFrame}},
    {{.chunk = 0.4, .left = 0, .right = 0}, {0, 5 * kFrame, 0}},
    {{.chunk = 0.08, .left = 0.5, .right = 0.08}, {6 * kFrame, kFrame, kFrame}}};

class BufferedStreamsOf : public testing::TestWithParam<test::Variant> {};

/// Returns the number of encoder frames that NeMo cuts equally: those before the last buffer, or
/// all if the utterance ends with an encoder frame.
int64_t frames_before_the_end(int64_t samples, const test::NemoBuffer& buffer) {
  if (samples % kFrame == 0) return samples / kFrame;
  int64_t done = 0;
  while (samples - done > buffer.chunk + buffer.right) done += buffer.chunk;
  return done / kFrame;
}

TEST_P(BufferedStreamsOf, EqualNemosLoop) {
  ModelConfig config = test::small_config();
  GetParam().change(config);
  const auto model = test::random_model(config, 7);
  const std::vector<Samples> all = utterances();
  for (const auto& [seconds, expected] : kContexts) {
    const auto streams = make_encoder_streams(
        model, {.streams = 4, .rows = 3, .fewer_rows = {1}, .buffer = seconds});
    EXPECT_EQ(streams->chunk_samples(), expected.chunk);
    EXPECT_EQ(streams->look_ahead_samples(), expected.right + 1);
    const auto streamed = test::stream(*streams, all, 4, 4000, 11);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto samples = static_cast<int64_t>(all[i].size());
      const int64_t frames = frames_before_the_end(samples, expected);
      const at::Tensor loop = test::by_nemos_buffers(*model, all[i], expected, kFrame);
      ASSERT_GE(streamed[i].frames.size(0), frames) << samples;
      ASSERT_GE(loop.size(0), frames) << samples;
      EXPECT_LT(test::largest(streamed[i].frames.slice(0, 0, frames), loop.slice(0, 0, frames)),
                1e-4)
          << samples;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, BufferedStreamsOf,
    testing::Values(
        test::Variant{"full", [](ModelConfig&) {}},
        test::Variant{"limited", test::context(EncoderConfig::ContextStyle::regular, {4, 4})},
        test::Variant{"chunked_with_right",
                      test::context(EncoderConfig::ContextStyle::chunked_with_right, {11, 5, 3})}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BufferedStreams, GiveAsManyFramesAsTheWholeUtteranceHas) {
  for (const bool causal : {false, true}) {
    ModelConfig config = test::small_config();
    if (causal) test::streaming(config);
    const auto model = test::random_model(config, 7);
    for (const auto& [seconds, expected] : kContexts) {
      const auto streams = make_encoder_streams(model, {.streams = 4, .buffer = seconds});
      const std::vector<Samples> all = utterances();
      const auto streamed = test::stream(*streams, all, 4, 4000, 11);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(streamed[i].frames.size(0),
                  config.encoded_frames(static_cast<int64_t>(all[i].size())))
            << all[i].size();
      }
    }
  }
}

TEST(BufferedStreams, EqualTheWholeUtteranceWhereItFitsTheBuffer) {
  const auto model = test::random_model(test::small_config(), 7);
  const auto streams = make_encoder_streams(
      model, {.streams = 3, .buffer = BufferSeconds{.chunk = 2, .left = 1, .right = 0.96}});
  const std::vector<Samples> all = {test::noise(37 * kFrame, 1), test::noise(20000, 2), Samples{}};
  const auto streamed = test::stream(*streams, all, 3, 9000, 11);
  for (size_t i = 0; i < all.size(); ++i) {
    const at::Tensor expected = test::whole(*model, all[i]);
    ASSERT_EQ(streamed[i].frames.sizes(), expected.sizes());
    EXPECT_LT(test::largest(streamed[i].frames, expected), 1e-4);
    EXPECT_EQ(streamed[i].steps, 1);
  }
}

TEST(BufferedStreams, EqualTheWholeUtteranceWhereTheModelSeesNoFurther) {
  // To each side, a frame depends on 2 x 4 frames by attention and on 2 x 4 by the convolutions.
  // The features are not normalised.
  ModelConfig config = test::small_config();
  test::context(EncoderConfig::ContextStyle::regular, {4, 4})(config);
  config.features.normalization = FeatureConfig::Normalization::none;
  const auto model = test::random_model(config, 7);
  const auto streams = make_encoder_streams(
      model, {.buffer = BufferSeconds{.chunk = 0.4, .left = 18 * 0.08, .right = 18 * 0.08}});
  const std::vector<Samples> all = {test::noise(100000, 1)};
  const at::Tensor expected = test::whole(*model, all[0]);
  const at::Tensor frames = test::stream(*streams, all, 1, 9000, 11)[0].frames;
  ASSERT_EQ(frames.sizes(), expected.sizes());
  EXPECT_LT(test::largest(frames, expected), 5e-5);
}

TEST(BufferedStreams, DependOnNothingBesideThem) {
  const auto model = test::random_model(test::small_config(), 7);
  const std::vector<Samples> all = utterances();
  const auto run = [&](size_t at_a_time, int64_t longest, uint64_t seed) {
    const auto streams =
        make_encoder_streams(model, {.streams = 6, .buffer = kContexts.front().first});
    return test::stream(*streams, all, at_a_time, longest, seed);
  };
  const auto alone = run(1, 100000, 1);
  for (const auto& other : {run(6, 100000, 2), run(6, 400, 3), run(3, 5000, 4)}) {
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(alone[i].frames.equal(other[i].frames)) << all[i].size();
  }
}

}  // namespace
}  // namespace rtfx
