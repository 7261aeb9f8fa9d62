// Simulated comparisons of two runs show the smallest change that `rtfx noise` calls visible.
#include "harness/results/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "harness/results/statistics.h"

namespace rtfx {
namespace {

/// Returns the share of pairs of runs whose interval shows a gain. One run of each pair is faster
/// by `change`.
double seen(double change, double sd, int64_t rounds, double drift) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  const auto run = [&](double speed) {
    const double offset = drift * normal(engine);
    std::vector<double> values;
    for (int64_t i = 0; i < rounds; ++i)
      values.push_back(speed * std::exp(offset + sd * normal(engine)));
    return values;
  };
  constexpr int kPairs = 2000;
  int count = 0;
  for (int i = 0; i < kPairs; ++i) {
    const auto before = run(1);
    count += runs_ratio({before}, run(1 + change), drift).low > 1;
  }
  return static_cast<double>(count) / kPairs;
}

TEST(Noise, AVisibleChangeIsSeenInFourOfFiveComparisons) {
  for (const double drift : {0.0, 0.003, 0.01}) {
    for (const int64_t rounds : {5, 10, 40}) {
      for (const double sd : {0.005, 0.03}) {
        const double change = minimum_detectable_change(sd, rounds, drift);
        EXPECT_NEAR(seen(change, sd, rounds, drift), 0.8, 0.05)
            << drift << " " << rounds << " " << sd;
        EXPECT_LT(seen(change / 2, sd, rounds, drift), 0.4);
      }
    }
  }
}

TEST(Noise, RoundsHelpAgainstTheirOwnSpreadAlone) {
  EXPECT_LT(minimum_detectable_change(0.02, 40, 0.0),
            0.5 * minimum_detectable_change(0.02, 10, 0.0));
  EXPECT_GT(minimum_detectable_change(0.02, 1'000'000, 0.01), 0.039);
  EXPECT_EQ(minimum_detectable_change(0, 5, 0), 0);
}

TEST(Noise, OfRealRunsOnABusyMachine) {
  std::vector<ResultSet> runs;
  for (int i = 1; i <= 6; ++i)
    runs.push_back(read_results("tests/data/busy_cpu/run_" + std::to_string(i) + ".jsonl.gz"));
  const auto one = noise({runs.data(), 1}, {}, {});
  const auto six = noise(runs, {"rtfx.decode"}, {});
  ASSERT_EQ(one.size(), 2 * six.size());  // two metrics are judged
  for (const NoiseRow& row : one) EXPECT_EQ(row.drift, kRunDrift);
  for (const NoiseRow& row : six) {
    EXPECT_NE(row.drift, kRunDrift);  // measured
    EXPECT_GT(row.visible, 2 * row.drift);
    EXPECT_TRUE(std::ranges::is_sorted(row.by_rounds, std::greater()));
  }
}

}  // namespace
}  // namespace rtfx
