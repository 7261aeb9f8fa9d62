#include "models/encoder/encoder_memory.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

constexpr double kGB = 1e9;

EncoderConfig quickstart() {
  EncoderConfig config;
  config.layers = 8;
  config.width = 144;
  config.heads = 4;
  return config;
}

double gigabytes(const EncoderConfig& config, int64_t rows, double minutes, int64_t element) {
  const auto mel_frames = static_cast<int64_t>(minutes * 60 * 100);
  return static_cast<double>(encoder_bytes(config, 80, rows, mel_frames, element)) / kGB;
}

// The largest resident memory of `rtfx transcribe` beyond the 0.51 GB of a 1 s recording, measured
// on a CPU with LibTorch 2.11 and the quickstart model.
TEST(EncoderMemory, IsWhatWasMeasured) {
  EXPECT_NEAR(gigabytes(quickstart(), 1, 16, 4), 7.14, 0.1 * 7.14);
  EXPECT_NEAR(gigabytes(quickstart(), 1, 16, 2), 3.66, 0.1 * 3.66);
  EXPECT_NEAR(gigabytes(quickstart(), 1, 8, 4), 2.27, 0.2 * 2.27);
}

TEST(EncoderMemory, GrowsWithRowsAndNotWithTheSquareOfALimitedContext) {
  EXPECT_DOUBLE_EQ(gigabytes(quickstart(), 3, 16, 4), 3 * gigabytes(quickstart(), 1, 16, 4));
  EncoderConfig limited = quickstart();
  limited.left_context = limited.right_context = 128;
  EXPECT_NEAR(gigabytes(limited, 1, 60, 4), 15 * gigabytes(limited, 1, 4, 4), 0.1);
  EXPECT_GT(gigabytes(quickstart(), 1, 60, 4), 5 * gigabytes(limited, 1, 60, 4));
}

TEST(EncoderMemory, OfTheFusedEncoderGrowsWithTheLength) {
  const auto fused = [](int64_t rows, int64_t minutes) {
    return fused_encoder_bytes(quickstart(), 80, rows, minutes * 6000);
  };
  EXPECT_EQ(fused(1, 64), 16 * fused(1, 4));
  EXPECT_EQ(fused(3, 16), 3 * fused(1, 16));
  EXPECT_LT(static_cast<double>(fused(1, 16)), 0.2 * kGB * gigabytes(quickstart(), 1, 16, 2));
}

}  // namespace
}  // namespace rtfx
