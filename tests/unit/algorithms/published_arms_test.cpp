// Arms that exist for the published tables: the search as a TorchScript program, and the baseline
// whose host reads the decision of each row.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/lstm_cases.h"

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
    // RNN-T asks no row about an evaluation that gave only blanks.
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

}  // namespace
}  // namespace rtfx
