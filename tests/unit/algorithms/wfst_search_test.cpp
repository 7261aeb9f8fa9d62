#include <gtest/gtest.h>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

using test::EveryPath;
using test::Words;

constexpr float kWide = 1e6f;
constexpr int64_t kMany = 1 << 20;

const std::vector<std::vector<double>> kFourFrames = {
    {.6, .1, .3}, {.2, .1, .7}, {.1, .7, .2}, {.1, .3, .6}};

WfstPath search(const GraphView& graph, const std::vector<float>& lp, float beam = kWide,
                int64_t max_active = kMany, std::span<const float> word_costs = {}) {
  ViterbiSearch search(graph, beam, max_active);
  return search.run(lp.data(), static_cast<int64_t>(lp.size()) / graph.columns, graph.columns,
                    word_costs);
}

/// Compares with costs that were worked out by hand for LG of two_token_graph().
TEST(WfstSearch, CostsOfAllTextsOfTheWorkedExample) {
  for (const Topology topology : {Topology::normal, Topology::compact}) {
    const WfstGraph graph = test::two_token_graph(topology);
    const auto lp = test::logs(kFourFrames);
    const auto costs = EveryPath(graph.view(), lp).by_words();
    EXPECT_NEAR(costs.at({2}), 2.5350, 1e-4);  // AB
    EXPECT_NEAR(costs.at({3}), 3.9281, 1e-4);  // B
    EXPECT_NEAR(costs.at({}), 3.9809, 1e-4);
    EXPECT_NEAR(costs.at({1, 3}), 4.2350, 1e-4);  // A B
    EXPECT_NEAR(costs.at({1}), 4.2878, 1e-4);     // A
    const WfstPath path = search(graph.view(), lp);
    EXPECT_EQ(path.words, Words({2}));
    EXPECT_EQ(path.tokens, Words({0, 1}));
    EXPECT_EQ(path.token_frames, Words({0, 2}));
    EXPECT_NEAR(path.cost, 2.5350, 1e-4);
    EXPECT_TRUE(path.reached_final);
  }
}

TEST(WfstSearch, OnlyCompactRepeatsATokenWithoutABlank) {
  const auto lp = test::logs({{.9, .05, .05}, {.8, .1, .1}});
  const auto normal = test::two_token_graph(Topology::normal);
  const auto compact = test::two_token_graph(Topology::compact);
  EXPECT_FALSE(EveryPath(normal.view(), lp).by_words().contains({1, 1}));
  EXPECT_NEAR(EveryPath(compact.view(), lp).by_words().at({1, 1}), 2.6285, 1e-4);
  for (const WfstGraph* graph : {&normal, &compact}) {
    const WfstPath path = search(graph->view(), lp);
    EXPECT_EQ(path.words, Words({1}));
    EXPECT_NEAR(path.cost, 1.6285, 1e-4);
  }
}

TEST(WfstSearch, AWordCostMovesItsTextsAndTooMuchRepeatsTheWord) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  const auto lp = test::logs(kFourFrames);
  const auto costs = EveryPath(graph.view(), lp, {0, -1, 0, 0}).by_words();
  EXPECT_NEAR(costs.at({2}), 2.5350, 1e-4);
  EXPECT_NEAR(costs.at({1, 3}), 3.2350, 1e-4);
  EXPECT_NEAR(costs.at({1}), 3.2878, 1e-4);
  const std::vector<float> favour = {0, -2, 0, 0};
  const WfstPath path = search(graph.view(), lp, kWide, kMany, favour);
  EXPECT_EQ(path.words, Words({1, 1}));
  EXPECT_NEAR(path.cost, 1.9809, 1e-4);
}

TEST(WfstSearch, AWordOfOneTokenThatStaysInItsStateHasThatToken) {
  // In a graph of the minimal topology, a word of one token may lead back to its state.
  TransducerArcs t;
  t.states = 1;
  t.finals = {{0, 0.3f}};
  t.add(0, 0, test::kTwoTokens.tokens + 1, 0);  // blank
  t.add(0, 0, 2, 1, 1.2f);
  const WfstGraph graph = WfstGraph::from(t, 2, {"B"}, "none", std::string(64, '0'), "test");
  const WfstPath path =
      search(graph.view(), test::logs({{.1, .8, .1}, {.1, .1, .8}, {.1, .8, .1}}));
  EXPECT_EQ(path.words, Words({1, 1}));
  EXPECT_EQ(path.word_frames, Words({0, 2}));
  EXPECT_EQ(path.tokens, Words({1, 1}));
  EXPECT_EQ(path.token_frames, Words({0, 2}));
}

TEST(WfstSearch, NoFramesGiveTheEmptyText) {
  const WfstGraph graph = test::two_token_graph(Topology::normal);
  const WfstPath path = search(graph.view(), {});
  EXPECT_TRUE(path.words.empty());
  EXPECT_NEAR(path.cost, 0.3, 1e-6);
}

TEST(WfstSearch, AWideBeamFindsTheBestOfAllPaths) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const WfstGraph graph = test::random_graph(5, seed);
    for (const int64_t frames : {0, 1, 2, 5}) {
      const auto lp = test::random_emissions(frames, 3, 1000 + seed);
      const EveryPath every(graph.view(), lp);
      const WfstPath path = search(graph.view(), lp);
      ASSERT_TRUE(path.alive);
      ASSERT_EQ(path.reached_final, std::isfinite(every.best()));
      if (!path.reached_final) continue;
      ASSERT_EQ(path.cost, every.best());
      ASSERT_EQ(every.by_words().at(path.words), path.cost);
    }
  }
}

TEST(WfstSearch, WordCostsAreSearchedToo) {
  const std::vector<float> costs = {0, -0.75f, 1.5f};
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const WfstGraph graph = test::random_graph(5, seed);
    const auto lp = test::random_emissions(4, 3, seed);
    const EveryPath every(graph.view(), lp, costs);
    const WfstPath path = search(graph.view(), lp, kWide, kMany, costs);
    if (!path.reached_final) continue;
    ASSERT_EQ(path.cost, every.best()) << seed;
    ASSERT_EQ(every.by_words().at(path.words), path.cost) << seed;
  }
}

TEST(WfstSearch, PruningNeverFindsACheaperPathAndSometimesADearerOne) {
  int dearer_beam = 0, dearer_active = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const WfstGraph graph = test::random_graph(12, seed);
    const auto lp = test::random_emissions(8, 3, seed);
    const WfstPath best = search(graph.view(), lp);
    EXPECT_EQ(search(graph.view(), lp, kWide, 12).cost, best.cost);
    for (const auto& [path, count] :
         {std::pair(search(graph.view(), lp, 0.75f), &dearer_beam),
          std::pair(search(graph.view(), lp, kWide, 1), &dearer_active)}) {
      ASSERT_TRUE(path.alive);
      if (path.reached_final && best.reached_final) {
        EXPECT_GE(path.cost, best.cost);
        *count += path.cost > best.cost;
      }
    }
  }
  EXPECT_GT(dearer_beam, 0);
  EXPECT_GT(dearer_active, 0);
}

TEST(WfstSearch, ImpossibleFramesEndTheSearch) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  ViterbiSearch search(graph.view(), 17, kMany);
  const float never = -std::numeric_limits<float>::infinity();
  for (const float value : {never, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> lp = test::logs(kFourFrames);
    std::fill(lp.begin() + 3, lp.begin() + 6, value);
    EXPECT_FALSE(search.run(lp.data(), 4, 3).alive);
  }
  // The search only avoids one impossible column, and the failed runs leave nothing behind.
  std::vector<float> lp = test::logs(kFourFrames);
  lp[0] = never;
  const WfstPath path = search.run(lp.data(), 4, 3);
  EXPECT_EQ(path.words, Words({3}));
  EXPECT_NEAR(path.cost, EveryPath(graph.view(), lp).by_words().at({3}), 1e-4);
}

TEST(WfstSearch, ReadsNothingBetweenRowsOfEmissions) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  const auto lp = test::logs(kFourFrames);
  std::vector<float> spread(4 * 5, std::numeric_limits<float>::quiet_NaN());
  for (size_t t = 0; t < 4; ++t) std::copy_n(lp.begin() + 3 * t, 3, spread.begin() + 5 * t);
  ViterbiSearch narrow(graph.view(), 17, kMany);
  EXPECT_EQ(narrow.run(spread.data(), 4, 5).cost, narrow.run(lp.data(), 4, 3).cost);
}

}  // namespace
}  // namespace rtfx
