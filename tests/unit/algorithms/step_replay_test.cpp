// Tests steps with their state on the host: results, transfers and waits of every form.
// (greedy_oracle_test.cpp has the plain search on tables, and greedy_golden_test.cpp the counts of
// calls.)
#include "algorithms/decoders/greedy/step_replay/step_replay.h"

#include <gtest/gtest.h>

#include "tests/support/lstm_cases.h"

namespace rtfx {
namespace {

class StepReplayForms : public testing::TestWithParam<const char*> {};

TEST_P(StepReplayForms, EqualFrameLoopingBatchAfterBatch) {
  test::expect_equal_to_frame_looping("step_replay", {{"loop", GetParam()}}, at::kCPU);
}

TEST_P(StepReplayForms, TransferInPiecesOrAtOnce) { test::expect_transfers(GetParam(), at::kCPU); }

TEST_P(StepReplayForms, RecordNothingOnACpu) {
  std::mt19937 random(5);
  const auto model = test::lstm_model(2, false, at::kCPU);
  const auto decoder = test::prepared("step_replay", {{"loop", GetParam()}}, model, {4, 10});
  decoder->decode(test::random_batch(random, 4, 10, model->config.encoder.width));
  EXPECT_EQ(decoder->counters().at("graph_captures"), 0);
  EXPECT_EQ(decoder->counters().at("graph_launches"), 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, StepReplayForms, testing::Values("host", "replay", "coalesced"),
                         [](const auto& form) { return std::string(form.param); });

TEST(Mirror, BothWaysOfUploadingReachEveryTensor) {
  const step_replay::Mirror mirror(
      {{{1, 3}, at::kLong}, {{2, 3, 5}, at::kHalf}, {{1, 3, 0}, at::kLong}}, at::kCPU);
  for (const bool pieces : {true, false}) {
    for (const at::Tensor& tensor : mirror.host())
      tensor.copy_(at::arange(tensor.numel()).view(tensor.sizes()) + (pieces ? 7 : 8));
    EXPECT_FALSE(at::equal(mirror.device()[1], mirror.host()[1]));
    EXPECT_EQ(pieces ? mirror.upload_pieces() : mirror.upload(), pieces ? 4 : 1);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(mirror.device()[i], mirror.host()[i]));
  }
  mirror.device()[1].fill_(1);
  HostReads reads;
  mirror.download(reads);
  EXPECT_EQ(reads.count(), 1);
  EXPECT_TRUE(mirror.host()[1].eq(1).all().item<bool>());
  EXPECT_EQ(mirror.host()[0][0][2].item<int64_t>(), 10);
}

TEST(Mirror, CopiesOneRowOfEveryPiece) {
  const at::Tensor from = at::arange(12, at::kFloat).view({2, 3, 2}), to = at::zeros({2, 3, 2});
  step_replay::copy_row(from, to, 1);
  EXPECT_TRUE(at::equal(to.select(1, 1), from.select(1, 1)));
  EXPECT_EQ(to.count_nonzero().item<int64_t>(), 4);
  const at::Tensor none = at::zeros({1, 3, 0});
  step_replay::copy_row(none, none, 2);
}

}  // namespace
}  // namespace rtfx
