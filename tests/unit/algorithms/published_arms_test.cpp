// Tests the arms that exist for the published tables: the search as a TorchScript program, and the
// baseline whose host reads the decision of each row.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/greedy_cases.h"
#include "tests/support/lstm_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

TEST(LabelLoopingScript, EqualsFrameLooping) {
  test::expect_equal_to_frame_looping("label_looping", {{"loop", "script"}}, at::kCPU);
}

TEST(LabelLoopingScript, CountsAsTheLoopsOfTheHostDo) {
  std::mt19937 random(1);
  for (const bool tdt : {false, true}) {
    const auto model = test::lstm_model(2, tdt, at::kCPU);
    const EncodedBatch batch = test::random_batch(random, 5, 20, model->config.encoder.width);
    const auto counts = [&](const char* loop) {
      const auto decoder =
          test::prepared("label_looping", {{"loop", loop}, {"score_kind", "logprob"}}, model);
      const std::vector<Hypothesis> found = decoder->decode(batch).to_host();
      return std::pair(decoder->counters(), found.front().score);
    };
    const auto host = counts("host"), script = counts("script");
    EXPECT_EQ(script.first, host.first);
    EXPECT_NEAR(script.second, host.second, 1e-3);
  }
}

TEST(LabelLoopingScript, RefusesWhatItHasNot) {
  EXPECT_THROW(test::prepared("label_looping", {{"loop", "script"}, {"window", 2}},
                              test::lstm_model(1, false, at::kCPU)),
               UserError);
  ModelConfig stateless = test::small_config();
  stateless.prediction.kind = PredictionConfig::Kind::stateless;
  stateless.prediction.context_size = 2;
  EXPECT_THROW(
      test::prepared("label_looping", {{"loop", "script"}}, test::random_model(stateless, 1)),
      UserError);
}

TEST(FrameLoopingByRows, WaitsForEachRowAndToken) {
  std::mt19937 random(1);
  for (const bool tdt : {false, true}) {
    const auto model = test::lstm_model(1, tdt, at::kCPU);
    const EncodedBatch batch = test::random_batch(random, 6, 20, model->config.encoder.width);
    const auto flag = test::prepared("frame_looping", {}, model);
    const auto rows = test::prepared("frame_looping", {{"host_reads", "rows"}}, model);
    flag->decode(batch);
    int64_t tokens = 0;
    for (const Hypothesis& h : rows->decode(batch).to_host())
      tokens += static_cast<int64_t>(h.tokens.size());
    // After an evaluation that gave only blanks, RNN-T asks no row.
    const int64_t asked = rows->counters().at("host_reads") - flag->counters().at("host_reads") -
                          1 - (tdt ? 4 : 2) * tokens;
    EXPECT_EQ(asked % 6, 0);
    EXPECT_GT(asked, tokens);
    EXPECT_LE(asked, 6 * rows->counters().at("joint_calls"));
  }
  EXPECT_THROW(test::prepared("frame_looping", {{"host_reads", "rows"}, {"loop", "replay"}},
                              test::lstm_model(1, false, at::kCPU)),
               UserError);
}

/// In a batch of one row, the prediction is computed at the start and after each token.
TEST(FrameLoopingCached, PredictsOnceForEachToken) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 30; ++trial) {
    test::Case c = test::random_case(random, test::kTransducerKinds[trial % 3], trial % 2 == 0);
    c.rows.resize(1);
    const auto model = test::build(c.model);
    const EncodedBatch batch = test::batch_of(c.rows, c.model.columns());
    const auto plain = test::prepared("frame_looping", {}, model);
    const auto cached = test::prepared("frame_looping", {{"cache_predictor", true}}, model);
    const std::vector<Hypothesis> found = cached->decode(batch).to_host();
    EXPECT_EQ(found, plain->decode(batch).to_host());
    EXPECT_EQ(cached->counters().at("joint_calls"), plain->counters().at("joint_calls"));
    const int64_t predictions = cached->counters().at("pred_calls");
    const auto tokens = std::ssize(found[0].tokens);
    EXPECT_GE(predictions, tokens) << trial;
    EXPECT_LE(predictions, tokens + 1) << trial;
  }
}

TEST(FrameLoopingCached, IsRefusedWithRecordedLoops) {
  for (const char* loop : {"replay", "graph"}) {
    EXPECT_HAS(test::user_error([&] {
                 test::prepared("frame_looping", {{"cache_predictor", true}, {"loop", loop}},
                                test::lstm_model(1, false, at::kCPU));
               }),
               R"("cache_predictor" needs a host that drives the loops)");
  }
}

TEST(TdtMinDurationByRows, FindsTheSameAndWaitsForEachRowAndToken) {
  std::mt19937 random(1);
  const auto model = test::lstm_model(1, /*tdt=*/true, at::kCPU);
  const EncodedBatch batch = test::random_batch(random, 6, 20, model->config.encoder.width);
  const auto flag = test::prepared("tdt_min_duration", {}, model);
  const auto rows = test::prepared("tdt_min_duration", {{"host_reads", "rows"}}, model);
  const std::vector<Hypothesis> expected = flag->decode(batch).to_host();
  const std::vector<Hypothesis> found = rows->decode(batch).to_host();
  int64_t tokens = 0;
  for (size_t b = 0; b < expected.size(); ++b) {
    EXPECT_EQ(found[b].tokens, expected[b].tokens);
    EXPECT_EQ(found[b].frames, expected[b].frames);
    EXPECT_EQ(found[b].durations, expected[b].durations);
    EXPECT_NEAR(found[b].score, expected[b].score, 1e-4);
    tokens += static_cast<int64_t>(found[b].tokens.size());
  }
  EXPECT_GT(tokens, 6);
  // The host reads each row at each evaluation, three values of each token, and at the end the
  // marks of rows with a NaN.
  EXPECT_EQ(rows->counters().at("host_reads") - flag->counters().at("host_reads"),
            6 * rows->counters().at("joint_calls") + 3 * tokens + 1);
}

/// Label-looping needs the same rows as frame-looping. A batch needs as many as its rows need
/// alone.
TEST(CountRows, WhatIsNeededDependsOnTheUtterancesAlone) {
  std::mt19937 random(2);
  for (const bool tdt : {false, true}) {
    const auto model = test::lstm_model(1, tdt, at::kCPU);
    const EncodedBatch batch = test::random_batch(random, 6, 20, model->config.encoder.width);
    const auto counts = [&](const char* name, const nlohmann::json& options) {
      const auto decoder = test::prepared(name, options, model);
      decoder->decode(batch);
      return decoder->counters();
    };
    const Counters label = counts("label_looping", {{"count_rows", true}});
    const Counters alone = counts("frame_looping", {{"count_rows", true}, {"batched", false}});
    for (const Counters& frame : {counts("frame_looping", {{"count_rows", true}}), alone}) {
      EXPECT_EQ(frame.at("joint_rows_needed"), label.at("joint_rows_needed")) << tdt;
      EXPECT_EQ(frame.at("pred_rows_needed"), label.at("pred_rows_needed")) << tdt;
    }
    EXPECT_EQ(alone.at("joint_rows"), alone.at("joint_rows_needed")) << tdt;
    EXPECT_GT(label.at("joint_rows"), label.at("joint_rows_needed")) << tdt;
  }
}

TEST(CountRows, RefusesLoopsThatCountNothing) {
  const auto model = test::lstm_model(1, false, at::kCPU);
  for (const char* name : {"frame_looping", "label_looping"})
    EXPECT_THROW(test::prepared(name, {{"count_rows", true}, {"loop", "replay"}}, model),
                 UserError);
  EXPECT_THROW(test::prepared("label_looping", {{"count_rows", true}, {"window", 2}}, model),
               UserError);
}

}  // namespace
}  // namespace rtfx
