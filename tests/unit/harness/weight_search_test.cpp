#include "harness/run/weight_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace rtfx {
namespace {

/// Searches for the weights with the fewest `errors`. No point may be asked for twice.
template <class Errors>
std::vector<WeighedErrors> search(const std::vector<TuneRange>& ranges, int64_t grid,
                                  double tolerance, const Errors& errors) {
  std::set<Weights> asked;
  return search_weights(ranges, grid, tolerance, [&](const std::vector<Weights>& points) {
    std::vector<int64_t> counts;
    for (const Weights& point : points) {
      EXPECT_TRUE(asked.insert(point).second);
      counts.push_back(errors(point));
    }
    return counts;
  });
}

TEST(WeightSearchTest, FindsTheLowestPointWithinTheTolerance) {
  const auto tried = search({{-1, 3}, {0, 1}}, 5, 0.01, [](const Weights& w) {
    return std::lround(1e6 * (std::pow(w[0] - 0.71, 2) + 3 * std::pow(w[1] - 0.37, 2)));
  });
  EXPECT_NEAR(tried.front().weights[0], 0.71, 0.04);
  EXPECT_NEAR(tried.front().weights[1], 0.37, 0.01);
  EXPECT_LT(tried.size(), 70U);  // 25 of the grid and some neighbours; all at 0.01: 10201
  for (const WeighedErrors& point : tried) EXPECT_GE(point.errors, tried.front().errors);
}

TEST(WeightSearchTest, TheGridHasBothEnds) {
  const auto tried = search({{0.5, 2.5}}, 3, 1, [](const Weights& w) { return std::lround(w[0]); });
  std::set<Weights> points;
  for (const WeighedErrors& point : tried) points.insert(point.weights);
  EXPECT_EQ(points, (std::set<Weights>{{0.5}, {1.5}, {2.5}}));
}

TEST(WeightSearchTest, AmongEqualsTheSmallerWeightIsChosen) {
  const auto flat = [](const Weights&) { return int64_t{7}; };
  EXPECT_EQ(search({{0, 1}, {-2, 2}}, 5, 0.02, flat).front().weights, (Weights{0, 0}));
  EXPECT_EQ(search({{0.2, 1}}, 4, 0.02, flat).front().weights, Weights{0.2});
  // Errors are lowest on a plateau from 0.5 on, so its lower edge is chosen.
  const auto step = [](const Weights& w) { return int64_t{w[0] < 0.5 ? 9 : 7}; };
  EXPECT_NEAR(search({{0, 1}}, 5, 0.01, step).front().weights[0], 0.5, 0.01);
}

TEST(WeightSearchTest, IntegersStayIntegers) {
  const auto tried = search({{1, 9, true}}, 4, 0.02, [](const Weights& w) {
    EXPECT_EQ(w[0], std::round(w[0]));
    return std::llabs(std::llround(w[0]) - 6);
  });
  EXPECT_EQ(tried.front().weights, Weights{6});
}

TEST(WeightSearchTest, EachCombinationOfChoicesIsSearchedByItself) {
  // The second choice is worse on the grid, and better between its points.
  const std::vector<TuneRange> ranges = {{.choices = {"late", "early"}}, {0, 1}};
  const auto tried = search(ranges, 3, 0.01, [](const Weights& w) {
    const double lowest = w[0] == 0 ? 0.5 : 0.3;
    return std::lround(1e4 * (std::pow(w[1] - lowest, 2) + (w[0] == 0 ? 0.01 : 0.001)));
  });
  EXPECT_EQ(tried.front().weights[0], 1);
  EXPECT_NEAR(tried.front().weights[1], 0.3, 0.01);
  for (const WeighedErrors& point : tried)
    EXPECT_EQ(point.weights[0], std::round(point.weights[0]));
}

TEST(WeightSearchTest, ChoicesAloneAreAllTriedAndTheFirstOfEqualsIsChosen) {
  const std::vector<TuneRange> ranges = {{.choices = {true, false}}, {.choices = {"a", "b", "c"}}};
  const auto tried = search(ranges, 5, 0.02, [](const Weights& w) { return int64_t{w[1] < 1}; });
  EXPECT_EQ(tried.size(), 6U);
  EXPECT_EQ(tried.front().weights, (Weights{0, 1}));
}

}  // namespace
}  // namespace rtfx
