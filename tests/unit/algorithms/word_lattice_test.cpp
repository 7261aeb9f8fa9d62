// Tests lattices of words against a look at every path of the graph, and as text.
#include "algorithms/shared/wfst/word_lattice.h"

#include <gtest/gtest.h>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "tests/support/wfst_cases.h"
#include "tests/support/word_lattice_cases.h"

namespace rtfx {
namespace {

using test::Words;

constexpr float kWideBeam = 1e6f;
constexpr int64_t kAllTokens = 1 << 20;
constexpr double kScale = 2;  // a power of two, so that unscaled costs are exact

std::map<Words, double> least_costs(const WordLattice& lattice) {
  std::map<Words, double> least;
  for (const test::LatticePath& path : test::every_path(lattice)) {
    double cost = 0;
    for (const size_t i : path.arcs) cost += LatticeScales{1, kScale}.cost(lattice.arcs[i]);
    const auto [it, is_new] = least.try_emplace(path.words, cost);
    it->second = std::min(it->second, cost);
  }
  return least;
}

/// Expects that each arc has the costs of its labels, and that these fill the frames between its
/// states.
void expect_sound(const WordLattice& lattice, const std::vector<float>& lp, int64_t columns) {
  for (const WordLattice::Arc& arc : lattice.arcs) {
    ASSERT_LT(arc.from, arc.to);
    double cost = 0;
    auto t = static_cast<size_t>(lattice.frame[static_cast<size_t>(arc.from)]);
    for (const int32_t column : lattice.labels_of(arc))
      cost -= lp[t++ * static_cast<size_t>(columns) + static_cast<size_t>(column)] / kScale;
    EXPECT_DOUBLE_EQ(arc.acoustic_cost, cost);
    EXPECT_EQ(t, static_cast<size_t>(lattice.frame[static_cast<size_t>(arc.to)]));
  }
}

TEST(WordLattice, HoldsTheBestPathOfEveryWordSequence) {
  int64_t sequences = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const WfstGraph graph = test::random_graph(4, seed);
    const auto lp = test::random_emissions(4, 3, seed);
    const std::vector<float> costs =
        seed % 2 == 0 ? std::vector<float>() : std::vector<float>{0, -0.75f, 1.5f};
    ViterbiSearch search(graph.view(), kWideBeam, kAllTokens);
    if (!search.run(lp.data(), 4, 3, costs).reached_final) continue;
    const WordLattice lattice = search.run_lattice(lp.data(), 4, 3, costs, kWideBeam, kScale);
    const test::EveryPath every(graph.view(), lp, costs);
    EXPECT_EQ(least_costs(lattice), every.by_words()) << seed;
    EXPECT_EQ(lattice.frame.front(), 0);
    EXPECT_EQ(lattice.frame.back(), 4);
    expect_sound(lattice, lp, 3);
    sequences += static_cast<int64_t>(every.by_words().size());
  }
  EXPECT_GT(sequences, 100);
}

TEST(WordLattice, HasThePathsWithinItsBeamAndNoArcOfOthers) {
  size_t arcs = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const WfstGraph graph = test::random_graph(200, seed);
    const auto lp = test::random_emissions(10, 3, seed);
    ViterbiSearch search(graph.view(), 4, 100);
    const WordLattice lattice = search.run_lattice(lp.data(), 10, 3, {}, 1, kScale);
    const auto costs = least_costs(lattice);
    const auto list = search.run_best(lp.data(), 10, 3, {}, 1000, 1);
    ASSERT_FALSE(list.empty());
    for (const WfstPath& path : list) {
      ASSERT_TRUE(costs.contains(path.words)) << seed;
      EXPECT_EQ(costs.at(path.words), path.cost) << seed;
    }
    std::vector<bool> used(lattice.arcs.size());
    for (const auto& path : test::every_path(lattice)) {
      double cost = 0;
      for (const size_t i : path.arcs) cost += LatticeScales{1, kScale}.cost(lattice.arcs[i]);
      if (cost > list.front().cost + 1) continue;
      for (const size_t i : path.arcs) used[i] = true;
    }
    EXPECT_EQ(std::ranges::count(used, false), 0) << seed;
    expect_sound(lattice, lp, 3);
    arcs += used.size();
  }
  EXPECT_GT(arcs, 200U);
}

TEST(WordLattice, WithoutFramesIsOneArcAndWithoutAPathIsEmpty) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  ViterbiSearch search(graph.view(), 3, 40);
  const std::vector<float> nan(3, std::nanf(""));
  EXPECT_EQ(search.run_lattice(nan.data(), 1, 3, {}, 8, 1).states(), 0);
  const WordLattice empty = search.run_lattice(nullptr, 0, 3, {}, 8, 1);
  ASSERT_EQ(empty.arcs.size(), 1U);
  EXPECT_NEAR(empty.arcs[0].graph_cost, 0.3, 1e-6);
  EXPECT_EQ(kaldi_text(empty, "none"), "none\n0\t1\t0\t0.3,0,\n1\n\n");
}

TEST(WordLattice, IsWrittenAsKaldiAndOpenFstReadIt) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  WordLattice lattice;
  lattice.frame = {0, 1, 4};
  lattice.labels = {2, 0, 0, 1, 2, 2, 2, 1};
  lattice.arcs = {{0, 1, 0, 0.25, 1, 0}, {0, 2, 3, 1.5, 4, 4}, {1, 2, 2, 0.5, -0.125, 1}};
  EXPECT_EQ(kaldi_text(lattice, "u-1"),
            "u-1\n0\t1\t0\t0.25,1,3\n0\t2\t3\t1.5,4,3_3_3_2\n1\t2\t2\t0.5,-0.125,1_1_2\n2\n\n");
  EXPECT_EQ(openfst_text(lattice, graph, {1, 2}),
            "0\t1\t<eps>\t2.25\n0\t2\tB\t9.5\n1\t2\tAB\t0.25\n2\n");
  EXPECT_EQ(symbol_table(graph), "<eps>\t0\nA\t1\nAB\t2\nB\t3\n");
}

TEST(WordLattice, NumbersWithoutAWordAreNotInTheSymbolTable) {
  const WfstGraph graph = test::two_token_graph(Topology::compact, test::two_token_grammar(),
                                                {"A", "AB", "B", "", "C", ""});
  EXPECT_EQ(symbol_table(graph), "<eps>\t0\nA\t1\nAB\t2\nB\t3\nC\t5\n");
}

}  // namespace
}  // namespace rtfx
