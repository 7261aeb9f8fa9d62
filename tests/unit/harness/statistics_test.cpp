#include "harness/results/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace rtfx {
namespace {

TEST(Statistics, StudentQuantilesAreThoseOfThePublishedTables) {
  EXPECT_NEAR(student_t(1), 12.706, 5e-4);
  EXPECT_NEAR(student_t(2), 4.303, 5e-4);
  EXPECT_NEAR(student_t(3), 3.182, 5e-4);
  EXPECT_NEAR(student_t(4), 2.776, 5e-4);
  EXPECT_NEAR(student_t(9), 2.262, 5e-4);
  EXPECT_NEAR(student_t(30), 2.042, 5e-4);
  EXPECT_NEAR(student_t(100000), 1.960, 5e-4);
  EXPECT_NEAR(student_t(9, 0.99), 3.250, 5e-4);
  EXPECT_TRUE(std::isinf(student_t(0)));
}

/// These are 5 values of an RTFx, each of 19229.6 s of audio in about 44 s.
TEST(Statistics, MeanOfRoundsHasATInterval) {
  const std::vector<double> rtfx = {437.036, 433.099, 435.059, 431.157, 434.077};
  const Interval mean = mean_interval(rtfx);
  EXPECT_NEAR(mean.estimate, 434.086, 1e-3);
  EXPECT_NEAR(spread_of(rtfx).sd, 2.191, 1e-3);
  EXPECT_NEAR(mean.high - mean.estimate, 2.776 * 2.191 / std::sqrt(5.0), 2e-3);
  EXPECT_NEAR(mean.relative_half_width(), 0.00627, 1e-5);
}

TEST(Statistics, PercentilesAreRanksAndWantEnoughValues) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0.5), 50);
  EXPECT_EQ(percentile(values, 0.95), 95);
  EXPECT_EQ(percentile(values, 0.99), 99);
  values.pop_back();
  EXPECT_EQ(percentile(values, 0.99), std::nullopt);
  EXPECT_EQ(percentile(std::vector<double>(19, 1.0), 0.95), std::nullopt);
  EXPECT_EQ(percentile(std::vector<double>(20, 1.0), 0.95), 1);
  EXPECT_EQ(percentile({3}, 0.5), 3);
  EXPECT_EQ(percentile({4, 3}, 0.5), 3);
  EXPECT_EQ(percentile({}, 0.5), std::nullopt);
}

TEST(Statistics, SpeedUpOfPairedRounds) {
  const Interval ratio =
      paired_ratio({4.0, 4.05, 3.98, 4.01, 4.02}, {10.0, 10.1, 9.9, 10.05, 10.02});
  EXPECT_NEAR(ratio.estimate, 2.496, 5e-4);
  EXPECT_NEAR(ratio.low, 2.487, 5e-4);
  EXPECT_NEAR(ratio.high, 2.505, 5e-4);
}

/// An effect that both arms share in a round, such as a slow machine, cancels only in pairs.
TEST(Statistics, PairingCancelsWhatRoundsShare) {
  const std::vector<double> a = {1.0, 2.0, 4.0, 8.0}, b = {2.0, 4.0, 8.0, 16.0};
  EXPECT_NEAR(paired_ratio(a, b).low, 2, 1e-12);
  EXPECT_NEAR(unpaired_ratio(a, b).estimate, 2, 1e-12);
  EXPECT_LT(unpaired_ratio(a, b).low, 0.5);
}

TEST(Statistics, WelchIntervalByHand) {
  // The logarithms are 0, 0.02 and 0.1, 0.12, 0.14. So the means have the variances 1e-4 and
  // 4e-4 / 3, and df is 2.9, rounded down to 2.
  const auto e = [](double x) { return std::exp(x); };
  const Interval ratio = unpaired_ratio({e(0), e(0.02)}, {e(0.1), e(0.12), e(0.14)});
  const double half = student_t(2) * std::sqrt(1e-4 + 4e-4 / 3);
  EXPECT_NEAR(std::log(ratio.estimate), 0.11, 1e-12);
  EXPECT_NEAR(std::log(ratio.high), 0.11 + half, 1e-9);
}

TEST(Statistics, OneRoundSaysNothingOfItsSpread) {
  const Interval ratio = unpaired_ratio({1.0}, {1.1, 1.2});
  EXPECT_EQ(ratio.low, 0);
  EXPECT_TRUE(std::isinf(ratio.high));
  EXPECT_TRUE(std::isinf(runs_ratio({{1.0}}, {1.1, 1.2}).high));
}

TEST(Statistics, FiveRunsOfOneValueTellItsSpread) {
  // The logarithms are 0 to 0.04, and their standard deviation is the root of 0.00025.
  const auto e = [](double x) { return std::exp(x); };
  const std::vector<std::vector<double>> runs = {
      {e(0)}, {e(0.01)}, {e(0.02)}, {e(0.03)}, {e(0.04)}};
  const Interval ratio = runs_ratio(runs, {e(0.12)});
  EXPECT_NEAR(std::log(ratio.estimate), 0.1, 1e-12);
  EXPECT_NEAR(std::log(ratio.high), 0.1 + student_t(4) * std::sqrt(0.00025 * (1 + 1.0 / 5)), 1e-9);
  EXPECT_TRUE(std::isinf(runs_ratio({runs.begin(), runs.end() - 1}, {e(0.12)}).high));
  // The spread between means of two rounds tells nothing about a single round.
  const std::vector<double> two = {1, 1.01};
  EXPECT_TRUE(std::isinf(runs_ratio({two, two, two, two, two}, {1.0}).high));
}

TEST(Statistics, NoiseFloorIsTheFartherEndOfTheInterval) {
  EXPECT_NEAR(noise_floor({1.0, 0.97, 1.01}), 0.03, 1e-12);
  EXPECT_NEAR(noise_floor({1.02, 1.01, 1.05}), 0.05, 1e-12);
}

TEST(Statistics, TheRatioOfRunsByHand) {
  // The logarithms are 0, 0.02 and 0.1, 0.12, 0.14 as above, and both runs have a drift.
  const auto e = [](double x) { return std::exp(x); };
  const std::vector<double> a = {e(0), e(0.02)}, b = {e(0.1), e(0.12), e(0.14)};
  const double within = 1e-4 + 4e-4 / 3, drift = 0.01;
  const Interval ratio = runs_ratio({a}, b, drift);
  const double variance = within + 2 * drift * drift;
  const double df = variance * variance / (1e-8 + 16e-8 / 9 / 2);
  EXPECT_NEAR(std::log(ratio.estimate), 0.11, 1e-12);
  EXPECT_NEAR(std::log(ratio.high),
              0.11 + student_t(static_cast<int64_t>(df)) * std::sqrt(variance), 1e-9);
  // Two runs before count by their mean, which has half the variance.
  const Interval of_two = runs_ratio({a, a}, b, drift);
  EXPECT_NEAR(of_two.estimate, ratio.estimate, 1e-12);
  EXPECT_LT(of_two.high, ratio.high);
  EXPECT_EQ(runs_ratio({{5, 5}}, {5, 5}, 0).high, 1);
}

/// The 95 % interval of the ratio holds the truth in about 95 of 100 repetitions.
TEST(Statistics, WelchIntervalCoversTheTruth) {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  int covered = 0;
  for (int repetition = 0; repetition < 1000; ++repetition) {
    std::vector<double> a(5), b(5);
    for (double& x : a) x = std::exp(0.01 * normal(engine));
    for (double& x : b) x = 1.5 * std::exp(0.03 * normal(engine));
    const Interval ratio = unpaired_ratio(a, b);
    covered += ratio.low <= 1.5 && 1.5 <= ratio.high;
  }
  EXPECT_GE(covered, 935);
  EXPECT_LE(covered, 980);
}

EditCounts edits(int64_t errors, int64_t words) {
  return {.substitutions = errors, .reference_words = words};
}

TEST(Statistics, WerDifferenceIsPaired) {
  std::vector<EditCounts> a, b;
  for (int64_t i = 0; i < 200; ++i) {  // hard and easy utterances, b always one error better
    a.push_back(edits(1 + i % 10, 10));
    b.push_back(edits(i % 10, 10));
  }
  const Interval difference = bootstrap_wer_difference(a, b, 1, 1000);
  EXPECT_NEAR(difference.estimate, -0.1, 1e-12);
  EXPECT_NEAR(difference.low, -0.1, 1e-12);  // no spread, though the utterances differ
  EXPECT_NEAR(difference.high, -0.1, 1e-12);
}

TEST(Statistics, OneUtteranceSaysNothingOfOthers) {
  const auto difference = [](const std::vector<EditCounts>& a, const std::vector<EditCounts>& b) {
    return bootstrap_wer_difference(a, b, 1, 1000);
  };
  const Interval one = difference({edits(1, 20)}, {edits(2, 20)});
  EXPECT_NEAR(one.estimate, 0.05, 1e-12);
  EXPECT_TRUE(std::isinf(one.low) && std::isinf(one.high));
  // An utterance without reference words does not show how rates vary either.
  const Interval beside_silence =
      difference({edits(1, 20), edits(0, 0)}, {edits(2, 20), edits(0, 0)});
  EXPECT_TRUE(std::isinf(beside_silence.low) && std::isinf(beside_silence.high));
  EXPECT_TRUE(
      std::isfinite(difference({edits(1, 20), edits(0, 20)}, {edits(2, 20), edits(0, 20)}).high));
}

/// docs/background/statistics.md has these shares of wrong intervals.
TEST(Statistics, WerIntervalsOfFewUtterancesAreTooNarrow) {
  std::mt19937_64 engine(5);
  std::uniform_int_distribution<int64_t> length(8, 25);
  const auto wrong = [&](int utterances) {
    int count = 0;
    for (uint64_t repetition = 0; repetition < 1000; ++repetition) {
      std::vector<EditCounts> a, b;
      for (int i = 0; i < utterances; ++i) {
        const int64_t words = length(engine);
        std::binomial_distribution<int64_t> errors(words, 0.1);
        a.push_back(edits(errors(engine), words));
        b.push_back(edits(errors(engine), words));
      }
      const Interval difference = bootstrap_wer_difference(a, b, repetition, 400);
      count += difference.low > 0 || difference.high < 0;
    }
    return count;
  };
  EXPECT_NEAR(wrong(2), 280, 60);
  EXPECT_NEAR(wrong(5), 140, 45);
  EXPECT_NEAR(wrong(24), 65, 14);
}

TEST(Statistics, WerDifferenceOfFewUtterancesIsUncertain) {
  const std::vector<EditCounts> a = {edits(1, 10), edits(0, 10), edits(2, 10), edits(0, 0)};
  const std::vector<EditCounts> b = {edits(0, 10), edits(1, 10), edits(3, 10), edits(0, 0)};
  const Interval difference = bootstrap_wer_difference(a, b, 1, 1000);
  EXPECT_NEAR(difference.estimate, 1.0 / 30, 1e-12);
  EXPECT_LT(difference.low, 0);
  EXPECT_GT(difference.high, 0.05);
  const Interval again = bootstrap_wer_difference(a, b, 1, 1000);
  EXPECT_EQ(again.low, difference.low);  // the seed decides
}

}  // namespace
}  // namespace rtfx
