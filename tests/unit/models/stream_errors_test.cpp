// Tests models that cannot be streamed, and wrong calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "models/streaming/cached_encoder.h"
#include "models/streaming/encoder_streams.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"
#include "tests/support/stream_runs.h"
#include "tests/support/user_error.h"

namespace rtfx {
namespace {

ModelConfig cache_aware_config() {
  ModelConfig config = test::small_config();
  test::streaming(config);
  return config;
}

void expect_error(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_NE(message.find("; "), std::string::npos) << "no remedy: " << message;
}

TEST(StreamErrors, WrongCalls) {
  const auto model = test::random_model(cache_aware_config(), 1);
  for (const bool buffered : {false, true}) {
    StreamOptions options{.streams = 2};
    if (buffered) options.buffer = BufferSeconds{.chunk = 0.5, .left = 1, .right = 0.2};
    const auto streams = make_encoder_streams(model, options);
    const int64_t first = streams->open(), second = streams->open();
    EXPECT_NE(first, second);
    expect_error(test::user_error([&] { streams->open(); }), "all 2 streams are open");
    const test::Samples audio = test::noise(100, 1);
    expect_error(test::user_error([&] { streams->push(7, audio); }), "stream 7: is not open");
    expect_error(test::user_error([&] { streams->finish(-1); }), "stream -1: is not open");
    for (const auto& [bad, text] : {std::pair(std::numeric_limits<float>::quiet_NaN(), "NaN"),
                                    {std::numeric_limits<float>::infinity(), "infinite"}}) {
      test::Samples wrong = audio;
      wrong[50] = bad;
      const std::string expected = fmt::format("sample 50 is {}", text);
      expect_error(test::user_error([&] { streams->push(first, wrong); }), expected);
      const std::vector<NewSamples> both = {{first, audio}, {second, wrong}};
      expect_error(test::user_error([&] { streams->push(both); }), expected);
    }
    streams->finish(first);
    streams->finish(first);  // says the same again
    expect_error(test::user_error([&] { streams->push(first, audio); }), "samples behind its end");
    const EncodedPieces last = streams->step();
    EXPECT_EQ(last.streams, std::vector<int64_t>{first});
    EXPECT_EQ(last.lengths, std::vector<int64_t>{0});  // nothing of the bad samples was taken
    EXPECT_EQ(last.last, std::vector<bool>{true});
    streams->close(first);
    expect_error(test::user_error([&] { streams->close(first); }), "is not open");
    EXPECT_GT(streams->open(), second);
  }
}

TEST(StreamErrors, WrongOptions) {
  const auto model = test::random_model(cache_aware_config(), 1);
  const auto made = [&](const StreamOptions& options) {
    return test::user_error([&] { make_encoder_streams(model, options); });
  };
  EXPECT_EQ(made({}), "");
  expect_error(made({.streams = 0}), "0 streams");
  expect_error(made({.streams = 1 << 20}), "1048576 streams");
  expect_error(made({.streams = 2, .rows = 3}), "3 rows for 2 streams");
  expect_error(made({.rows = -1}), "-1 rows");
  expect_error(made({.streams = 4, .fewer_rows = {2, 0}}), "fewer rows: 0, of 4");
  expect_error(made({.streams = 4, .rows = 2, .fewer_rows = {2}}), "give numbers from 1 to 1");
  expect_error(made({.fewer_rows = {1}}), "leave them out");
  expect_error(made({.att_context_size = {6}}), "no such attention context");
  expect_error(made({.att_context_size = {-1, 2}}), "sees all frames to the left");
  expect_error(made({.att_context_size = {6, -1}}), "behind a chunk");
  expect_error(made({.buffer = BufferSeconds{.chunk = 0.07}}), "is no encoder frame");
  expect_error(made({.buffer = BufferSeconds{.left = -1}}), "a context of -1 s");
  expect_error(made({.buffer = BufferSeconds{.right = 1e9}}), "possible");
  expect_error(made({.buffer = BufferSeconds{}, .att_context_size = {6, 2}}), "att_context_size");
}

TEST(StreamErrors, Fp8WantsTheFusedEncoder) {
  const auto made = [](EncoderForm form) {
    return test::user_error([&] {
      test::random_model(cache_aware_config(), 1, at::kCPU, {at::kFloat8_e4m3fn, at::kBFloat16},
                         form);
    });
  };
  for (const EncoderForm form : {EncoderForm::automatic, EncoderForm::fused})
    expect_error(made(form), "dtype fp8: needs the fused encoder, which runs on a GPU only");
  expect_error(made(EncoderForm::reference), "dtype fp8: the reference encoder knows none");
}

TEST(StreamErrors, ModelsThatAreNotMadeForCaches) {
  const std::map<std::string, std::pair<test::Change, const char*>> cases = {
      {"normalised",
       {[](ModelConfig& c) {
          c.features.normalization = FeatureConfig::Normalization::per_feature;
        },
        "normalised over the whole utterance"}},
      {"full", {test::context(EncoderConfig::ContextStyle::regular, {-1, -1}), "behind a chunk"}},
      {"right", {test::context(EncoderConfig::ContextStyle::regular, {4, 1}), "behind a chunk"}},
      {"chunk_right",
       {test::context(EncoderConfig::ContextStyle::chunked_with_right, {4, 2, 1}), "behind"}},
      {"left", {test::context(EncoderConfig::ContextStyle::regular, {-1, 0}), "to the left"}},
      {"sub_sampling", {test::front_end(true, false, 8), "causal_downsampling"}},
      {"stacking", {test::stacking(4, false), "causal_downsampling"}},
      {"convolution",
       {[](ModelConfig& c) { c.encoder.conv_right_context = 4; }, "conv_context_size"}},
      {"norm", {test::norm(EncoderConfig::ConvolutionNorm::instance), "norm over time"}},
      {"reduction", {test::reduction(EncoderConfig::Reduction::pooling, 2, 0), "reduces"}},
      {"absolute",
       {[](ModelConfig& c) { c.encoder.positions = EncoderConfig::Positions::absolute; },
        "relative positions"}},
      {"local", {test::local({4, 2}, 0, false), "relative positions"}},
  };
  for (const auto& [name, change] : cases) {
    ModelConfig config = cache_aware_config();
    change.first(config);
    const auto model = test::random_model(config, 1);
    expect_error(test::user_error([&] { make_encoder_streams(model, {}); }), change.second);
    EXPECT_NE(why_not_cache_aware(config), "") << name;
    // All of these models can be streamed on buffers.
    const auto streams =
        make_encoder_streams(model, {.buffer = BufferSeconds{.chunk = 1, .left = 1, .right = 0.5}});
    const auto streamed = test::stream(*streams, {test::noise(50000, 1)}, 1, 5000, 1);
    EXPECT_GT(streamed[0].frames.size(0), 0) << name;
  }
}

}  // namespace
}  // namespace rtfx
