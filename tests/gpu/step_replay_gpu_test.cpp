// Tests step_replay on a GPU. All forms equal frame-looping, and each other bit for bit. Graphs are
// recorded once for each number of rows, and memory does not grow.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include "tests/support/lstm_cases.h"

namespace rtfx {
namespace {

using namespace test;

class StepReplayGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  bool replays() const { return GetParam() != std::string("host"); }
  EncodedBatch batch_of_rows(int64_t rows, at::ScalarType dtype = at::kFloat) {
    return random_batch(random_, rows, 30, small_config().encoder.width, device_, dtype);
  }
  const at::Device device_{at::kCUDA, 0};
  std::mt19937 random_{5};
};

TEST_P(StepReplayGpu, EqualsFrameLoopingBatchAfterBatch) {
  expect_equal_to_frame_looping("step_replay", {{"loop", GetParam()}}, device_);
}

TEST_P(StepReplayGpu, TransfersInPiecesOrAtOnce) { expect_transfers(GetParam(), device_); }

TEST_P(StepReplayGpu, FormsAgreeBitForBit) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const auto model = lstm_model(2, true, device_, dtype);
    const auto plain = prepared("step_replay", {{"loop", "host"}}, model);
    const auto decoder = prepared("step_replay", {{"loop", GetParam()}}, model);
    for (const int64_t rows : {1, 8}) {
      const EncodedBatch batch = batch_of_rows(rows, dtype);
      EXPECT_EQ(decoder->decode(batch).to_host(), plain->decode(batch).to_host()) << dtype << rows;
    }
  }
}

TEST_P(StepReplayGpu, RecordsOnceForEachNumberOfRows) {
  const auto decoder =
      prepared("step_replay", {{"loop", GetParam()}}, lstm_model(2, true, device_), {8, 30});
  struct Expected {
    int64_t rows, captures;
  };
  for (const auto& [rows, captures] :
       std::vector<Expected>{{8, 0}, {1, 1}, {1, 0}, {8, 0}, {3, 1}}) {
    decoder->decode(batch_of_rows(rows));
    const Counters counters = decoder->counters();
    EXPECT_EQ(counters.at("graph_captures"), replays() ? captures : 0) << rows;
    EXPECT_EQ(counters.at("graph_launches"),
              replays() ? counters.at("pred_calls") + counters.at("joint_calls") : 0);
  }
}

TEST_P(StepReplayGpu, MemoryStaysTheSameOverRandomBatches) {
  const auto decoder =
      prepared("step_replay", {{"loop", GetParam()}}, lstm_model(2, true, device_), {8, 30});
  const auto allocated = [] {
    c10::cuda::device_synchronize();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  };
  int64_t before = 0;
  for (int i = 0; i < 320; ++i) {
    decoder->decode(batch_of_rows(1 + i % 8)).to_host();
    if (i == 20) before = allocated();
  }
  EXPECT_EQ(allocated(), before);
}

INSTANTIATE_TEST_SUITE_P(Forms, StepReplayGpu, testing::Values("host", "replay", "coalesced"),
                         [](const auto& form) { return std::string(form.param); });

}  // namespace
}  // namespace rtfx
