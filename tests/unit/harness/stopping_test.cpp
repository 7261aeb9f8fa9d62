#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "harness/results/statistics.h"

namespace rtfx {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

TEST(Stopping, WithoutAPrecisionTheRoundsDecide) {
  const StoppingRule rule{.least = 3, .most = 13};
  EXPECT_EQ(decide(rule, 2, 2, 0, 1e9), Stop::go_on);
  EXPECT_EQ(decide(rule, 3, 0, kUnknown, 0), Stop::rounds);
}

TEST(Stopping, PrecisionEndsACaseAfterTheLeastRounds) {
  const StoppingRule rule{.least = 3, .most = 13, .precision = 0.01};
  EXPECT_EQ(decide(rule, 2, 2, 0.001, 0), Stop::go_on);
  EXPECT_EQ(decide(rule, 3, 3, 0.02, 0), Stop::go_on);
  EXPECT_EQ(decide(rule, 3, 3, 0.01, 0), Stop::precision);
  EXPECT_EQ(decide(rule, 13, 13, 0.02, 0), Stop::rounds);
}

TEST(Stopping, DisturbedRoundsAreRepeated) {
  const StoppingRule rule{.least = 3, .most = 13, .precision = 0.01};
  EXPECT_EQ(decide(rule, 5, 2, 0.001, 0), Stop::go_on);
  EXPECT_EQ(decide(rule, 6, 3, 0.001, 0), Stop::precision);
}

TEST(Stopping, TheBudgetLimitsFurtherRoundsOnly) {
  const StoppingRule rule{.least = 3, .most = 13, .precision = 0.01, .budget_seconds = 60};
  EXPECT_EQ(decide(rule, 2, 2, kUnknown, 100), Stop::go_on);
  EXPECT_EQ(decide(rule, 3, 3, 0.02, 59), Stop::go_on);
  EXPECT_EQ(decide(rule, 3, 3, 0.02, 60), Stop::budget);
}

/// In this made-up series, the half width falls as 5 % / sqrt(n), so it is 1 % after 25 rounds.
TEST(Stopping, ASeriesEndsWhereItIsPreciseEnough) {
  const StoppingRule rule{.least = 3, .most = 100, .precision = 0.01};
  int64_t rounds = 0;
  while (decide(rule, rounds, rounds, rounds == 0 ? kUnknown : 0.05 / std::sqrt(rounds), 0) ==
         Stop::go_on)
    ++rounds;
  EXPECT_EQ(rounds, 25);
}

/// Returns the share of simulated measurements whose 95 % interval holds the truth. Rounds go on
/// until the interval is narrow enough. The noise is `sd` times the wanted precision.
double coverage(int64_t least, double sd) {
  constexpr int kRepetitions = 4000;
  const StoppingRule rule{.least = least, .most = least + 100, .precision = 0.01};
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal(1, sd * rule.precision);
  int covered = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<double> rounds;
    Interval mean;
    Stop stop = Stop::go_on;
    while (stop == Stop::go_on) {
      rounds.push_back(normal(engine));
      mean = mean_interval(rounds);
      const auto count = static_cast<int64_t>(rounds.size());
      stop = decide(rule, count, count, mean.relative_half_width(), 0);
    }
    covered += mean.low <= 1 && 1 <= mean.high;
  }
  return static_cast<double>(covered) / kRepetitions;
}

/// Checks the table of docs/background/statistics.md with the worst of these noises.
TEST(Stopping, TheIntervalHoldsTheTruthALittleLessOften) {
  const auto worst = [](int64_t least) {
    double share = 1;
    for (const double sd : {0.5, 1.0, 1.5, 2.0, 3.0}) share = std::min(share, coverage(least, sd));
    return share;
  };
  EXPECT_NEAR(worst(3), 0.91, 0.01);
  EXPECT_NEAR(worst(5), 0.925, 0.01);
  EXPECT_NEAR(worst(10), 0.935, 0.01);
}

}  // namespace
}  // namespace rtfx
