// Tests the shared memory of thread blocks: the bytes that kernels ask for, and the error if a GPU
// has fewer.
#include "base/gpu/shared_memory.h"

#include <gtest/gtest.h>

#include "algorithms/decoders/greedy/fused_looping/search.h"
#include "algorithms/shared/fused_beam/aes_phases.h"
#include "algorithms/shared/fused_beam/ctc_phases.h"
#include "base/error.h"
#include "base/gpu/rounding.h"

namespace rtfx {
namespace {

constexpr int64_t kH200 = 227 << 10;  // bytes that a block on an H200 gets on request

std::string refusal(int64_t needed, int64_t available) {
  try {
    require_shared_memory("a decoder", "a beam of 9", needed, available, "choose a smaller beam");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(SharedMemory, TooLittleIsAnErrorWithTheLimitAndTheRemedy) {
  EXPECT_EQ(refusal(kH200, kH200), "");
  const std::string text = refusal(kH200 + 1, kH200);
  for (const char* part : {"a decoder: a beam of 9 needs 232449 bytes", "this GPU has 232448",
                           "; choose a smaller beam"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// Checks the rows of the persistent kernel of fused_looping.
TEST(SharedMemory, TheMostRowsFitAndOneMoreDoesNot) {
  using fused::most_rows, fused::row_bytes;
  for (int64_t bytes = 100; bytes < 5000; ++bytes) {
    const auto rows = static_cast<int>(most_rows(bytes));
    ASSERT_LE(row_bytes(rows), bytes);
    ASSERT_GT(row_bytes(rows + 1), bytes);
  }
}

TEST(SharedMemory, OfAFrameOfAesGrowsWithTheBeamAndItsLabels) {
  const auto bytes = [](int32_t beam, int32_t labels, int32_t durations) {
    fused_beam::ChooseExpanded phase{};
    phase.frame.beams.beam = phase.append.beams.beam = beam;
    phase.frame.scoring.durations = durations;
    phase.candidates.count = labels;
    return phase.shared_bytes();
  };
  // TDT also keeps hash and frame of each candidate, 8 bytes each.
  EXPECT_EQ(bytes(10, 12, 5) - bytes(10, 12, 0), 10 * 12 * 16);
  EXPECT_LE(bytes(100, 102, 5), kH200);
  EXPECT_GT(bytes(120, 122, 5), kH200);
  EXPECT_LE(bytes(1000, 1002, 0), kH200);
}

TEST(SharedMemory, OfCtcFramesHoldsEveryBeamThatMayBeAskedForOnAnH200) {
  fused_beam::CtcFrames frames{};
  frames.beams.beam = 1000;
  EXPECT_LE(frames.shared_bytes(), kH200);
  EXPECT_GT(frames.shared_bytes(), 99 << 10);  // but not on devices of capability 8.6
}

TEST(Rounding, Upwards) {
  EXPECT_EQ(ceil_div(0, 8), 0);
  EXPECT_EQ(ceil_div(1, 8), 1);
  EXPECT_EQ(ceil_div(8, 8), 1);
  EXPECT_EQ(ceil_div(9, 8), 2);
  EXPECT_EQ(round_up<int64_t>(0, 8), 0);
  EXPECT_EQ(round_up<int64_t>(int64_t{1} << 40 | 1, 8), (int64_t{1} << 40) + 8);
  static_assert(round_up(17, 16) == 32);
}

}  // namespace
}  // namespace rtfx
