#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

/// A made-up series whose half width falls as 5 % / sqrt(n): 1 % is reached after 25 rounds.
TEST(Stopping, ASeriesEndsWhereItIsPreciseEnough) {
  const StoppingRule rule{.least = 3, .most = 100, .precision = 0.01};
  int64_t rounds = 0;
  while (decide(rule, rounds, rounds, rounds == 0 ? kUnknown : 0.05 / std::sqrt(rounds), 0) ==
         Stop::go_on)
    ++rounds;
  EXPECT_EQ(rounds, 25);
}

}  // namespace
}  // namespace rtfx
