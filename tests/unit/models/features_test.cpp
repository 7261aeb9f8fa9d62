// Log-mel features: published constants, lengths, and independence from whatever lies in the
// padding.
#include "models/features.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace rtfx {
namespace {

at::Tensor noise(int64_t samples, uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({samples}) * 0.1;
}

FeatureExtractor extractor(int64_t mel_bins) {
  FeatureConfig config;
  config.mel_bins = mel_bins;
  return {config, {}, at::kCPU};
}

TEST(Filterbank, EqualsTheSlaneyConstants) {
  struct Row {
    int64_t bins, row, first;
    std::vector<double> values;
    double sum;
  };
  for (const Row& r :
       std::vector<Row>{{80, 0, 1, {0.0225345608, 0.00863771024}, 0.031172271},
                        {80, 40, 54, {0.00715944147, 0.0144441763, 0.00876147812}, 0.0321162977},
                        {80, 79, 238, {3.37596158e-04, 7.01915176e-04}, 0.0319305346},
                        {128, 0, 1, {0.028377543}, 0.028377543},
                        {128, 64, 54, {0.0112167058, 0.0188182832, 6.4914452e-04}, 0.0306841335},
                        {128, 127, 244, {4.76413405e-05, 9.39419972e-04}, 0.031943687}}) {
    const at::Tensor row = slaney_filterbank(16000, 512, r.bins)[r.row];
    for (size_t i = 0; i < r.values.size(); ++i) {
      EXPECT_NEAR(row[r.first + static_cast<int64_t>(i)].item<double>(), r.values[i], 1e-8);
    }
    EXPECT_EQ(row[r.first - 1].item<double>(), 0);
    EXPECT_NEAR(row.sum().item<double>(), r.sum, 1e-7);
  }
  EXPECT_EQ(slaney_filterbank(16000, 512, 80).count_nonzero().item<int64_t>(), 500);
  EXPECT_EQ(slaney_filterbank(16000, 512, 128).count_nonzero().item<int64_t>(), 504);
}

TEST(Features, LengthsAreFloorOfTenMilliseconds) {
  const FeatureExtractor extract = extractor(80);
  for (const auto& [samples, frames] :
       {std::pair<int64_t, int64_t>{1600, 10}, {16000, 100}, {552160 / 16, 215}}) {
    const Features f = extract(noise(samples, 1).unsqueeze(0), at::tensor({samples}, at::kLong));
    EXPECT_EQ(f.lengths.item<int64_t>(), frames);
    EXPECT_EQ(f.values.size(2), frames);
  }
}

TEST(Features, NormalisedOverTheValidFramesOnly) {
  const Features f =
      extractor(80)(noise(32000, 2).view({2, 16000}), at::tensor({16000, 8000}, at::kLong));
  const at::Tensor row = f.values[1].narrow(1, 0, 50);
  EXPECT_LT(row.mean(1).abs().max().item<double>(), 1e-5);
  EXPECT_NEAR(row.std(1).mean().item<double>(), 1.0, 1e-4);
  EXPECT_EQ(f.values[1].narrow(1, 50, 50).abs().max().item<double>(), 0);
}

TEST(Features, GarbageInThePaddingChangesNothing) {
  const FeatureExtractor extract = extractor(128);
  const at::Tensor clip = noise(20000, 3);
  const Features alone = extract(clip.unsqueeze(0), at::tensor({20000}, at::kLong));
  at::Tensor batch = at::full({2, 30000}, std::numeric_limits<float>::quiet_NaN());
  batch[0].narrow(0, 0, 20000).copy_(clip);
  batch[1].copy_(noise(30000, 4));
  const Features together = extract(batch, at::tensor({20000, 30000}, at::kLong));
  EXPECT_LT((together.values[0].narrow(1, 0, 125) - alone.values[0]).abs().max().item<double>(),
            1e-4);
  EXPECT_FALSE(together.values.isnan().any().item<bool>());
}

TEST(Features, EmptyAndOneFrameUtterancesHaveNoFrames) {
  at::Tensor audio = noise(6400, 5).view({4, 1600});
  const Features f = extractor(80)(audio, at::tensor({0, 100, 200, 1600}, at::kLong));
  EXPECT_TRUE(at::equal(f.lengths, at::tensor({0, 0, 0, 10}, at::kLong)));
  EXPECT_FALSE(f.values.isnan().any().item<bool>());
  const Features tiny = extractor(80)(noise(10, 6).unsqueeze(0), at::tensor({10}, at::kLong));
  EXPECT_EQ(tiny.lengths.item<int64_t>(), 0);
}

TEST(Features, SilenceStaysFinite) {
  // All mel values are ln(2^-24): what remains is rounding of the mean over the guard of 1e-5.
  const Features f = extractor(80)(at::zeros({1, 4000}), at::tensor({4000}, at::kLong));
  EXPECT_LT(f.values.abs().max().item<double>(), 1);
}

}  // namespace
}  // namespace rtfx
