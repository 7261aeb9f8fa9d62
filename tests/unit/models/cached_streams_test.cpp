// Tests streams with caches against the encoder of whole utterances.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/load_checkpoint.h"
#include "models/streaming/cached_encoder.h"
#include "models/streaming/stream_features.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"
#include "tests/support/stream_runs.h"

namespace rtfx {
namespace {

using test::Samples;

/// Returns utterances with lengths around the ends of windows, frames and chunks, and with some
/// seconds.
std::vector<Samples> utterances() {
  std::vector<Samples> all;
  for (const int64_t samples : {0,    1,    159,  160,  161,  255,  256,  320,   1279,  1280, 1281,
                                1440, 2560, 3840, 4000, 5120, 5280, 9999, 16000, 31111, 40000})
    all.push_back(test::noise(samples, static_cast<uint64_t>(samples)));
  return all;
}

ModelConfig streaming_config(const std::vector<int64_t>& context) {
  ModelConfig config = test::small_config();
  test::streaming(config);
  select_context(config, context, "test");
  return config;
}

TEST(StreamFeatures, EqualThoseOfTheWholeUtterance) {
  for (const auto& [fixed, block] : {std::pair<bool, int64_t>{false, 24}, {false, 8}, {true, 24}}) {
    ModelConfig config = streaming_config({6, 2});
    if (fixed) {
      config.features.normalization = FeatureConfig::Normalization::fixed;
      for (int64_t i = 0; i < 80; ++i) {
        config.features.fixed_mean.push_back(static_cast<double>(i) / 10 - 4);
        config.features.fixed_deviation.push_back(1 + static_cast<double>(i) / 80);
      }
    }
    const auto model = test::random_model(config, 1);
    const Samples audio = test::noise(16000, 3);
    at::Tensor wave = at::zeros({1, 16000});
    std::copy(audio.begin(), audio.end(), wave.data_ptr<float>());
    const at::Tensor whole = (*model->features)(wave, at::tensor({16000}, at::kLong)).values[0];
    StreamAudio stream;
    const StreamFeatures features(model, block);
    std::vector<at::Tensor> blocks;
    int64_t first = -7;
    for (size_t sent = 0; first < 100;) {
      const size_t count = std::min<size_t>(audio.size() - sent, 1 + sent % 700);
      stream.push(std::span(audio).subspan(sent, count));
      sent += count;
      if (sent == audio.size()) stream.finish();
      while (first < 100 &&
             (stream.finished() || stream.received() >= features.samples_for(first + block))) {
        const StreamFeatures::Block row{&stream, first, 100};
        blocks.push_back(features({{row, row}}, 2)[1]);
        EXPECT_TRUE(blocks.back().equal(features({{row}}, 2)[0]));
        first += block;
        stream.forget(features.first_sample(first));
      }
    }
    const at::Tensor all = at::cat(blocks, 1);
    EXPECT_TRUE(all.narrow(1, 0, 7).eq(0).all().item<bool>());
    EXPECT_TRUE(all.slice(1, 107).eq(0).all().item<bool>());
    RecordProperty("difference", std::to_string(test::largest(all.narrow(1, 7, 100), whole)));
    EXPECT_LT(test::largest(all.narrow(1, 7, 100), whole), 2e-5);
  }
}

TEST(StreamFeatures, WaitForNoMoreThanTheWindow) {
  const auto model = test::random_model(streaming_config({6, 2}), 1);
  const StreamFeatures features(model, 1);
  EXPECT_EQ(features.samples_for(1), 200);  // half of a window of 400
  EXPECT_EQ(features.samples_for(9), 8 * 160 + 200);
  // Samples that come after the end change nothing.
  const Samples audio = test::noise(2000, 5);
  StreamAudio some, more;
  some.push(std::span(audio).first(8 * 160 + 200));
  more.push(audio);
  EXPECT_TRUE(features({{{&some, 8, 9}}}, 1).equal(features({{{&more, 8, 9}}}, 1)));
  StreamAudio less;
  less.push(std::span(audio).first(8 * 160 + 198));  // the outermost weight of a window is 0
  EXPECT_FALSE(features({{{&less, 8, 9}}}, 1).equal(features({{{&more, 8, 9}}}, 1)));
}

TEST(StepSizes, AreNemos) {
  // The file holds encoder.streaming_cfg of NeMo, as tests/golden/make_streaming.py keeps it.
  const auto cases = nlohmann::json::parse(std::ifstream("tests/golden/data/streaming.json"));
  using Two = std::array<int64_t, 2>;
  int compared = 0;
  for (const auto& [name, golden] : cases.items()) {
    if (!golden.contains("sizes")) continue;
    const StepSizes ours = step_sizes(streaming_config(golden["context"]).encoder);
    const auto& nemos = golden["sizes"];
    EXPECT_EQ(ours.chunk_size, nemos["chunk_size"].get<Two>()) << name;
    EXPECT_EQ(ours.shift_size, nemos["shift_size"].get<Two>()) << name;
    EXPECT_EQ(ours.pre_encode_cache_size, nemos["pre_encode_cache_size"].get<Two>()) << name;
    EXPECT_EQ(ours.drop_extra_pre_encoded, nemos["drop_extra_pre_encoded"]) << name;
    EXPECT_EQ(ours.valid_out_len, nemos["valid_out_len"]) << name;
    EXPECT_EQ(ours.last_channel_cache_size, nemos["last_channel_cache_size"]) << name;
    EXPECT_EQ(nemos["cache_drop_size"], 0) << name;  // no step computes a frame again
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

struct CachedCase {
  const char* name;
  std::vector<int64_t> context;
  test::Change change = [](ModelConfig&) {};
};

class CachedStreamsOf : public testing::TestWithParam<CachedCase> {};

TEST_P(CachedStreamsOf, EqualTheWholeUtterance) {
  ModelConfig config = streaming_config(GetParam().context);
  GetParam().change(config);
  const auto model = test::random_model(config, 7);
  const std::vector<Samples> all = utterances();
  float largest = 0;
  for (const std::vector<int64_t>& fewer_rows : {std::vector<int64_t>{}, {2, 1}}) {
    const auto streams =
        make_encoder_streams(model, {.streams = 5, .rows = 3, .fewer_rows = fewer_rows});
    const auto streamed = test::stream(*streams, all, 5, 3000, 11);
    for (size_t i = 0; i < all.size(); ++i) {
      const at::Tensor expected = test::whole(*model, all[i]);
      ASSERT_EQ(streamed[i].frames.sizes(), expected.sizes()) << all[i].size();
      largest = std::max(largest, test::largest(streamed[i].frames, expected));
    }
  }
  RecordProperty("difference", std::to_string(largest));
  EXPECT_LT(largest, 5e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CachedStreamsOf,
    testing::Values(
        CachedCase{"chunks_of_3", {6, 2}}, CachedCase{"no_look_ahead", {4, 0}},
        CachedCase{"one_chunk_to_the_left", {14, 13}}, CachedCase{"no_left_context", {0, 3}},
        CachedCase{"more_than_all_to_the_left", {700, 6}},
        CachedCase{"regular",
                   {8, 0},
                   [](ModelConfig& c) {
                     c.encoder.context_style = EncoderConfig::ContextStyle::regular;
                     select_context(c, {8, 0}, "test");
                   }},
        CachedCase{"striding_by_4", {6, 2}, test::front_end(false, true, 4)},
        CachedCase{"batch_norm", {6, 2}, test::norm(EncoderConfig::ConvolutionNorm::batch)},
        CachedCase{"output_map", {6, 2}, [](ModelConfig& c) { c.encoder.output_width = 24; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CachedStreams, AFewAreComputedWithFewerRows) {
  const auto model = test::random_model(streaming_config({6, 2}), 7);
  const Samples audio = test::noise(30000, 1);
  at::Tensor alone;
  for (const auto& [count, computed] :
       std::map<int64_t, int64_t>{{1, 1}, {2, 8}, {8, 8}, {9, 16}}) {
    const auto streams = make_encoder_streams(model, {.streams = 16, .fewer_rows = {8, 1}});
    for (int64_t i = 0; i < count; ++i) streams->push(streams->open(), audio);
    const EncodedPieces pieces = streams->step();
    EXPECT_EQ(pieces.computed_rows, computed);
    EXPECT_EQ(std::ssize(pieces.streams), count);
    if (!alone.defined()) alone = pieces.row(0);
    EXPECT_LT(test::largest(pieces.row(static_cast<size_t>(count - 1)), alone), 5e-5);
  }
}

TEST(CachedStreams, ChooseALookAheadOfTheirOwn) {
  // A model with another context than its own must equal the model with that context.
  const auto model = test::random_model(streaming_config({8, 3}), 7);
  const std::vector<Samples> all = {test::noise(30000, 1)};
  for (const std::vector<int64_t>& context :
       std::vector<std::vector<int64_t>>{{8, 3}, {8, 1}, {4, 0}, {26, 12}}) {
    const auto streams = make_encoder_streams(model, {.att_context_size = context});
    EXPECT_EQ(streams->most_frames(), context[1] + 1);
    EXPECT_EQ(streams->chunk_samples(), (context[1] + 1) * 1280);
    const at::Tensor expected =
        test::whole(*test::random_model(streaming_config(context), 7), all[0]);
    EXPECT_LT(test::largest(test::stream(*streams, all, 1, 999, 2)[0].frames, expected), 5e-5);
  }
}

TEST(CachedStreams, EveryLookAheadOfAModelFile) {
  const std::vector<Samples> all = {test::noise(30000, 1), test::noise(21000, 2)};
  for (const char* name : {"tiny_streaming.nemo", "tiny_hf_nemotron"}) {
    const auto path = std::filesystem::path("tests/data/checkpoints") / name;
    const auto build = [&](const std::vector<int64_t>& context) {
      return AcousticModel::build(load_checkpoint(path, context), at::kCPU, at::kFloat);
    };
    const auto model = build({});
    const auto& contexts = model->config.encoder.contexts;
    EXPECT_GE(contexts.size(), 3);
    for (const auto& context : contexts) {
      const auto streams = make_encoder_streams(model, {.streams = 2, .att_context_size = context});
      const auto streamed = test::stream(*streams, all, 2, 4000, 3);
      for (size_t i = 0; i < all.size(); ++i) {
        const at::Tensor expected = test::whole(*build(context), all[i]);
        ASSERT_EQ(streamed[i].frames.sizes(), expected.sizes()) << name;
        EXPECT_LT(test::largest(streamed[i].frames, expected), 5e-5) << name;
      }
    }
  }
}

TEST(CachedStreams, DependOnNothingBesideThem) {
  test::expect_independent(test::random_model(streaming_config({6, 2}), 7), utterances());
}

TEST(CachedStreams, WhatAStreamLeavesBehindIsNotSeenByTheNext) {
  const auto model = test::random_model(streaming_config({6, 2}), 7);
  const auto streams = make_encoder_streams(model, {});
  Samples loud = test::noise(40000, 1);
  for (float& sample : loud) sample *= 1000;
  const Samples audio = test::noise(20000, 2);
  const at::Tensor fresh = test::stream(*streams, {audio}, 1, 1000, 3)[0].frames;
  const at::Tensor other = test::stream(*streams, {loud}, 1, 1000, 3)[0].frames;
  EXPECT_GT(test::largest(other.narrow(0, 0, fresh.size(0)), fresh), 0.1);
  EXPECT_TRUE(fresh.equal(test::stream(*streams, {audio}, 1, 1000, 3)[0].frames));
  // This also holds for a stream that is closed in the middle.
  const int64_t stream = streams->open();
  streams->push(stream, loud);
  EXPECT_FALSE(streams->step().empty());
  streams->close(stream);
  EXPECT_TRUE(fresh.equal(test::stream(*streams, {audio}, 1, 1000, 3)[0].frames));
}

TEST(CachedStreams, TakeManyAtOnceAsOneByOne) {
  const auto model = test::random_model(streaming_config({6, 2}), 7);
  std::vector<Samples> audio;
  // All utterances together are more than one thread copies alone.
  for (int64_t i = 0; i < 12; ++i) audio.push_back(test::noise(16000 + 100 * i, 1 + i));
  std::vector<NewSamples> all;
  for (int64_t i = 0; i < 11; ++i) all.push_back({i, audio[static_cast<size_t>(i)]});
  // The last utterance comes in two pieces.
  all.push_back({11, std::span(audio[11]).first(5000)});
  all.push_back({11, std::span(audio[11]).subspan(5000)});
  for (const size_t count : {all.size() - 1, all.size()}) {
    const auto taken = make_encoder_streams(model, {.streams = 12});
    for (size_t i = 0; i < audio.size(); ++i) taken->open();
    taken->push(std::span(all).first(count));
    if (count < all.size()) taken->push(std::span(all).last(1));
    for (int64_t i = 0; i < 12; ++i) taken->finish(i);
    const auto expected = make_encoder_streams(model, {.streams = 12});
    for (const Samples& samples : audio) expected->push(expected->open(), samples);
    for (int64_t i = 0; i < 12; ++i) expected->finish(i);
    for (EncodedPieces pieces = taken->step(); !pieces.empty(); pieces = taken->step()) {
      const EncodedPieces same = expected->step();
      EXPECT_TRUE(pieces.frames.equal(same.frames));
      EXPECT_EQ(pieces.lengths, same.lengths);
    }
    EXPECT_TRUE(expected->step().empty());
  }
}

TEST(CachedStreams, TakeTurnsWhereThereAreFewRows) {
  const auto model = test::random_model(streaming_config({4, 0}), 7);
  const auto streams = make_encoder_streams(model, {.streams = 5, .rows = 2});
  for (int64_t i = 0; i < 5; ++i) {
    streams->open();
    streams->push(i, test::noise(16000, 1));
  }
  std::vector<int64_t> order;
  for (int step = 0; step < 5; ++step) {
    for (const int64_t stream : streams->step().streams) order.push_back(stream);
  }
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
}

TEST(CachedStreams, GiveAChunkAsSoonAsItsLastWindowIsFull) {
  const auto model = test::random_model(streaming_config({6, 2}), 7);
  const auto streams = make_encoder_streams(model, {});
  EXPECT_EQ(streams->look_ahead_samples(), 40);
  const int64_t stream = streams->open();
  const Samples audio = test::noise(60000, 1);
  const auto first = static_cast<size_t>(16 * 160 + 200);  // frames 0 to 16
  streams->push(stream, std::span(audio).first(first - 1));
  EXPECT_TRUE(streams->step().empty());
  streams->push(stream, std::span(audio).subspan(first - 1, 1));
  const EncodedPieces step = streams->step();
  EXPECT_EQ(step.lengths, std::vector<int64_t>{3});
  EXPECT_EQ(step.last, std::vector<bool>{false});
  streams->push(stream, std::span(audio).subspan(first, 24 * 160 - 1));
  EXPECT_TRUE(streams->step().empty());
  streams->finish(stream);
  EXPECT_EQ(streams->step().lengths, std::vector<int64_t>{3});
  EXPECT_TRUE(streams->step().empty());
}

TEST(CachedStreams, HalfPrecisionIsClose) {
  const auto half = test::random_model(streaming_config({6, 2}), 7, at::kCPU, at::kBFloat16);
  const auto full = test::random_model(streaming_config({6, 2}), 7);
  const std::vector<Samples> all = {test::noise(30000, 1)};
  const auto streams = make_encoder_streams(half, {});
  const at::Tensor frames = test::stream(*streams, all, 1, 999, 2)[0].frames;
  EXPECT_EQ(frames.scalar_type(), at::kBFloat16);
  EXPECT_LT(test::largest(frames, test::whole(*full, all[0])), 0.3);
}

}  // namespace
}  // namespace rtfx
