// Tests log-mel features: published constants, lengths, and independence from the contents of the
// padding.
#include "models/encoder/features.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

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
  // All mel values are ln(2^-24). Only the rounding of the mean remains, over the guard of 1e-5.
  const Features f = extractor(80)(at::zeros({1, 4000}), at::tensor({4000}, at::kLong));
  EXPECT_LT(f.values.abs().max().item<double>(), 1);
}

/// Computes mel features of one utterance in double precision, one frame at a time, before
/// normalisation.
at::Tensor by_definition(const FeatureConfig& f, const at::Tensor& bank, const at::Tensor& audio) {
  const int64_t samples = audio.size(0), frames = samples / f.hop;
  const double pi = std::numbers::pi;
  const auto window = [&](int64_t n) {
    const double x = 2 * pi * static_cast<double>(n) / static_cast<double>(f.window - 1);
    if (f.window_shape == "hamming") return 0.54 - 0.46 * std::cos(x);
    if (f.window_shape == "blackman") return 0.42 - 0.5 * std::cos(x) + 0.08 * std::cos(2 * x);
    if (f.window_shape == "bartlett") return 1 - std::abs(x / pi - 1);
    return f.window_shape == "hann" ? 0.5 - 0.5 * std::cos(x) : 1.0;
  };
  const auto sample = [&](int64_t n) {
    if (n < 0 || n >= samples) return 0.0;
    const double before = n > 0 ? audio[n - 1].item<double>() : 0;
    return audio[n].item<double>() - f.preemphasis * before;
  };
  at::Tensor spectrum = at::empty({f.n_fft / 2 + 1, frames}, at::kDouble);
  for (int64_t t = 0; t < frames; ++t) {
    for (int64_t k = 0; k <= f.n_fft / 2; ++k) {
      std::complex<double> sum;
      for (int64_t n = 0; n < f.window; ++n) {
        const int64_t at = t * f.hop + n - f.window / 2;
        sum += window(n) * sample(at) *
               std::polar(1.0, -2 * pi * static_cast<double>(k * n) / static_cast<double>(f.n_fft));
      }
      spectrum[k][t] = std::pow(std::abs(sum), f.magnitude_power);
    }
  }
  at::Tensor mel = at::matmul(bank.to(at::kDouble), spectrum);
  if (!f.log) return mel;
  return (f.log_clamp ? mel.clamp_min(f.log_guard) : mel + f.log_guard).log();
}

FeatureConfig tiny_features() {
  FeatureConfig f;
  f.mel_bins = 4;
  f.n_fft = 32;
  f.window = 24;
  f.hop = 10;
  f.normalization = FeatureConfig::Normalization::none;
  return f;
}

TEST(Features, EverySettingEqualsItsDefinition) {
  std::vector<FeatureConfig> all(9, tiny_features());
  all[0].window_shape = "hamming";
  all[1].window_shape = "blackman";
  all[2].window_shape = "bartlett";
  all[3].window_shape = "none";
  all[4].magnitude_power = 1;
  all[5].preemphasis = 0;
  all[6].log_clamp = true;
  all[6].log_guard = 0.5;  // clamps some values
  all[7].log_guard = 1e-3;
  all[8].log = false;
  for (const FeatureConfig& f : all) {
    const at::Tensor bank = at::rand({f.mel_bins, f.n_fft / 2 + 1});
    const FeatureExtractor extract(f, {{"preprocessor.featurizer.fb", bank.unsqueeze(0)}},
                                   at::kCPU);
    const at::Tensor audio = noise(83, 7);
    const Features features = extract(audio.unsqueeze(0), at::tensor({83}, at::kLong));
    ASSERT_EQ(features.lengths.item<int64_t>(), 8);
    EXPECT_LT((features.values[0] - by_definition(f, bank, audio)).abs().max().item<double>(), 1e-4)
        << f.window_shape << f.magnitude_power << f.preemphasis << f.log_guard;
  }
}

TEST(Features, NumbersThatAreNotFiniteAreNamed) {
  const FeatureConfig f = tiny_features();
  for (const auto& [name, tensor] :
       StateDict{{"fb", at::rand({f.mel_bins, f.n_fft / 2 + 1})}, {"window", at::ones(f.window)}}) {
    tensor.view(-1)[1] = std::numeric_limits<float>::quiet_NaN();
    const std::string whole = "preprocessor.featurizer." + name;
    try {
      const FeatureExtractor extract(f, {{whole, tensor}}, at::kCPU);
      ADD_FAILURE() << name;
    } catch (const NotFinite& error) {
      EXPECT_EQ(std::string(error.what()), "tensor '" + whole + "' holds nan at element 1");
    }
  }
}

TEST(Features, EveryNormalizationIsOverTheRowsOwnFrames) {
  using Normalization = FeatureConfig::Normalization;
  FeatureConfig f = tiny_features();
  const at::Tensor bank = at::rand({f.mel_bins, f.n_fft / 2 + 1});
  const StateDict weights = {{"preprocessor.featurizer.fb", bank}};
  at::Tensor audio = at::full({3, 100}, std::numeric_limits<float>::quiet_NaN());
  audio[0].copy_(noise(100, 8));
  audio[1].narrow(0, 0, 57).copy_(noise(57, 9));
  audio[2].narrow(0, 0, 12).copy_(noise(12, 10));
  const at::Tensor lengths = at::tensor({100, 57, 12}, at::kLong);
  const at::Tensor plain = FeatureExtractor(f, weights, at::kCPU)(audio, lengths).values;
  f.fixed_mean = {1, 2, 3, 4};
  f.fixed_deviation = {2, 4, 8, 16};
  for (const Normalization kind :
       {Normalization::all_features, Normalization::fixed, Normalization::none}) {
    f.normalization = kind;
    const Features features = FeatureExtractor(f, weights, at::kCPU)(audio, lengths);
    EXPECT_TRUE(at::equal(features.lengths, at::tensor({10, 5, 1}, at::kLong)));
    for (int64_t row = 0; row < 3; ++row) {
      const int64_t frames = features.lengths[row].item<int64_t>();
      const at::Tensor own = plain[row].narrow(1, 0, frames);
      const at::Tensor column = at::tensor({1.f, 2.f, 3.f, 4.f}).unsqueeze(1);
      const at::Tensor expected = kind == Normalization::none ? own
                                  : kind == Normalization::fixed
                                      ? (own - column) / column.exp2()
                                      : (own - own.mean()) / (own.std() + 1e-5);
      EXPECT_LT((features.values[row].narrow(1, 0, frames) - expected).abs().max().item<double>(),
                1e-4);
      EXPECT_EQ(features.values[row].slice(1, frames).abs().sum().item<double>(), 0);
    }
  }
}

TEST(Features, OneFrameIsAnUtteranceUnlessItsBinsAreNormalised) {
  FeatureConfig f;
  EXPECT_EQ(f.frames(319), 0);
  EXPECT_EQ(f.frames(320), 2);
  f.normalization = FeatureConfig::Normalization::all_features;
  EXPECT_EQ(f.frames(319), 1);
  EXPECT_EQ(f.frames(159), 0);
}

}  // namespace
}  // namespace rtfx
