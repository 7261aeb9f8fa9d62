// Tests the n-best lists of the CPU search against a look at every path.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/search.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

using test::Words;

constexpr float kWide = 1e6f;
constexpr int64_t kAll = 1 << 20;

TEST(Lattice, TheGoldenExampleHasItsFiveTextsInOrder) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  const auto lp = test::logs({{.6, .1, .3}, {.2, .1, .7}, {.1, .7, .2}, {.1, .3, .6}});
  ViterbiSearch search(graph.view(), kWide, kAll);
  const auto paths = search.run_best(lp.data(), 4, 3, {}, 5, kWide);
  ASSERT_EQ(paths.size(), 5U);
  const std::vector<std::pair<Words, double>> expected = {
      {{2}, 2.5350}, {{3}, 3.9281}, {{}, 3.9809}, {{1, 3}, 4.2350}, {{1}, 4.2878}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(paths[i].words, expected[i].first) << i;
    EXPECT_NEAR(paths[i].cost, expected[i].second, 1e-4) << i;
  }
  EXPECT_EQ(paths[3].word_frames, Words({0, 2}));
  EXPECT_EQ(paths[3].token_frames, Words({0, 2}));
  EXPECT_TRUE(paths[4].reached_final);
}

TEST(Lattice, EqualsALookAtEveryPath) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const WfstGraph graph = test::random_graph(5, seed);
    const auto lp = test::random_emissions(5, 3, seed);
    const std::vector<float> costs =
        seed % 2 == 0 ? std::vector<float>() : std::vector<float>{0, -0.75f, 1.5f};
    const test::EveryPath every(graph.view(), lp, costs);
    ViterbiSearch search(graph.view(), kWide, kAll);
    const auto paths = search.run_best(lp.data(), 5, 3, costs, kAll, kWide);
    if (!search.run(lp.data(), 5, 3, costs).reached_final) continue;
    ASSERT_EQ(paths.size(), every.by_words().size()) << seed;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (i > 0) {
        EXPECT_LE(paths[i - 1].cost, paths[i].cost);
      }
      const auto found = every.by_words().find(paths[i].words);
      ASSERT_NE(found, every.by_words().end()) << seed;
      EXPECT_EQ(paths[i].cost, found->second) << seed;
    }
  }
}

TEST(Lattice, BeginsWithTheBestPathAndIsCutByItsBeamAndLength) {
  int64_t full = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const WfstGraph graph = test::random_graph(200, seed);
    const auto lp = test::random_emissions(30, 3, seed);
    ViterbiSearch search(graph.view(), 4, 100);
    const WfstPath best = search.run(lp.data(), 30, 3);
    const auto paths = search.run_best(lp.data(), 30, 3, {}, 8, 1);
    ASSERT_FALSE(paths.empty());
    test::expect_same_path(paths[0], best, fmt::format("seed {}", seed));
    for (const WfstPath& path : paths) EXPECT_LE(path.cost, best.cost + 1);
    full += paths.size() == 8;
    const auto fewer = search.run_best(lp.data(), 30, 3, {}, 3, 1);
    ASSERT_EQ(fewer.size(), std::min<size_t>(3, paths.size()));
    for (size_t i = 0; i < fewer.size(); ++i)
      test::expect_same_path(fewer[i], paths[i], fmt::format("seed {} entry {}", seed, i));
  }
  EXPECT_GT(full, 0);
}

TEST(Lattice, AnUtteranceThatNoPathGetsThroughHasNone) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  ViterbiSearch search(graph.view(), 3, 40);
  const std::vector<float> nan(3, std::nanf(""));
  EXPECT_TRUE(search.run_best(nan.data(), 1, 3, {}, 4, 8).empty());
  const auto empty = search.run_best(nullptr, 0, 3, {}, 4, 8);
  ASSERT_EQ(empty.size(), 1U);
  EXPECT_NEAR(empty[0].cost, 0.3, 1e-6);
}

}  // namespace
}  // namespace rtfx
