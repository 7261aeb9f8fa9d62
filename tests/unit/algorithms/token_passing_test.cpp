// Tests token passing by threads of the CPU. It equals the plain search in every bit, whatever the
// number of threads and blocks. It does so with all phases in one kernel and with a kernel for
// each.
#include "algorithms/decoders/wfst/ctc_wfst/token_passing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "tests/support/host_block.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

using test::PassingForm;

constexpr int64_t kRoom = 1 << 16;

class TokenPassing : public testing::TestWithParam<PassingForm> {};

INSTANTIATE_TEST_SUITE_P(Forms, TokenPassing,
                         testing::Values(PassingForm::one_kernel, PassingForm::phases,
                                         PassingForm::double_buffered_phases));

TEST(PassingKeys, AreInTheOrderOfCostThenNumber) {
  const std::vector<float> costs = {-1e30f, -2.5f, -1e-40f, 0.0f, 1e-40f, 1.0f, 1e30f};
  for (size_t i = 0; i < costs.size(); ++i) {
    EXPECT_EQ(cost_of(key_of(costs[i], 7)), costs[i]);
    EXPECT_EQ(number_of(key_of(costs[i], -1)), -1);
    EXPECT_LT(key_of(costs[i], -1), key_of(costs[i], 0));
    EXPECT_LT(key_of(costs[i], 2), key_of(costs[i], 3));
    if (i == 0) continue;
    EXPECT_LT(key_of(costs[i - 1], 9), key_of(costs[i], 0));
  }
  EXPECT_LT(key_of(std::numeric_limits<float>::infinity(), 1), kNoKey);
}

struct Case {
  WfstGraph graph;
  std::vector<float> lp;
  std::vector<int64_t> lengths;
  int64_t frames;
  std::vector<float> word_costs;
};

Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  constexpr int64_t kFrames = 9;
  Case c{test::random_graph(4 + static_cast<int32_t>(5 * seed), seed), {}, {}, kFrames, {}};
  for (int b = 0; b < 5; ++b)
    c.lengths.push_back(std::uniform_int_distribution<int64_t>(0, kFrames)(random));
  c.lp = test::random_emissions(5 * kFrames, 3, seed);
  // Frames behind a row's end are not read, and an impossible frame ends one utterance alone.
  for (size_t b = 0; b < 5; ++b)
    for (auto i = static_cast<size_t>(3 * c.lengths[b]); i < 3 * kFrames; ++i)
      c.lp[b * 3 * kFrames + i] = std::nanf("");
  if (seed % 4 == 0) std::fill_n(c.lp.begin() + 3, 3, -std::numeric_limits<float>::infinity());
  if (seed % 3 == 0) c.word_costs = {0, -0.75f, 1.5f};
  return c;
}

TEST_P(TokenPassing, EqualsThePlainSearchWithAnyThreadsAndBlocks) {
  int64_t open = 0, dead = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const Case c = random_case(seed);
    const float beam = seed % 2 == 0 ? 2.5f : 1e6f;
    const int64_t max_active = seed % 5 == 0 ? 3 : 1 << 20;
    ViterbiSearch plain(c.graph.view(), beam, max_active);
    for (const uint32_t turn : {0, 1}) {
      const int32_t threads = turn == 0 ? 1 : 4;
      const int32_t workspaces = (seed + turn) % 2 == 0 ? 1 : 2;
      const auto found =
          test::pass_tokens(c.graph.view(), c.lp, c.frames, c.lengths, beam, max_active, workspaces,
                            threads, kRoom, {c.word_costs}, GetParam());
      EXPECT_TRUE(found.clean);
      int64_t kept = 0;
      for (size_t b = 0; b < c.lengths.size(); ++b) {
        const WfstPath expected = plain.run(c.lp.data() + b * 3 * static_cast<size_t>(c.frames),
                                            c.lengths[b], 3, c.word_costs);
        test::expect_same_path(found.paths[b], expected, fmt::format("seed {} row {}", seed, b));
        kept += plain.counts().kept_tokens;
        open += expected.alive && !expected.reached_final;
        dead += !expected.alive;
      }
      EXPECT_EQ(found.traces_used, kept);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(open, 0);
  EXPECT_GT(dead, 0);
}

TEST_P(TokenPassing, StatesMayHaveMoreArcsThanABlockHoldsOrNone) {
  // A block of 4 threads holds 16 arcs of 4 tokens.
  for (const auto& [states, arcs] :
       std::vector<std::pair<int32_t, int32_t>>{{3, 1}, {5, 5}, {6, 16}, {40, 17}, {100, 300}}) {
    const WfstGraph graph = test::uneven_graph(states, arcs, 2, static_cast<uint32_t>(states));
    const auto lp = test::random_emissions(8, 3, static_cast<uint32_t>(arcs));
    for (const float beam : {1.0f, 1e6f}) {
      ViterbiSearch plain(graph.view(), beam, 1 << 20);
      const WfstPath expected = plain.run(lp.data(), 8, 3);
      for (const int32_t threads : {1, 3, 4}) {
        const auto found = test::pass_tokens(graph.view(), lp, 8, {8}, beam, 1 << 20, 1, threads,
                                             kRoom, {}, GetParam());
        test::expect_same_path(found.paths[0], expected,
                               fmt::format("{} states, {} threads", states, threads));
        EXPECT_EQ(found.traces_used, plain.counts().kept_tokens);
      }
    }
  }
}

TEST_P(TokenPassing, MaxActiveIsTheSameRuleForManyTokensAndEqualCosts) {
  for (uint32_t seed = 0; seed < 2; ++seed) {
    const WfstGraph graph = test::random_graph(300, seed);
    const auto lp = test::random_emissions(30, 3, seed);
    for (const int64_t max_active : {1, 7, 100}) {
      ViterbiSearch plain(graph.view(), 1e6f, max_active);
      for (const int32_t threads : {2, 3}) {
        const auto found = test::pass_tokens(graph.view(), lp, 30, {30}, 1e6f, max_active, 1,
                                             threads, kRoom, {}, GetParam());
        test::expect_same_path(found.paths[0], plain.run(lp.data(), 30, 3),
                               fmt::format("seed {}", seed));
      }
    }
  }
}

TEST_P(TokenPassing, RowsHaveWordCostsOfTheirOwn) {
  const WfstGraph graph = test::random_graph(60, 3);
  const auto lp = test::random_emissions(3 * 12, 3, 5);
  const std::vector<std::vector<float>> costs = {{0, 9, -1.5f}, {}, {0, -1.5f, 9}};
  ViterbiSearch plain(graph.view(), 20, 1 << 20);
  const auto found = test::pass_tokens(graph.view(), lp, 12, {12, 12, 12}, 20, 1 << 20, 2, 2, kRoom,
                                       costs, GetParam());
  for (size_t b = 0; b < 3; ++b)
    test::expect_same_path(found.paths[b], plain.run(lp.data() + b * 36, 12, 3, costs[b]),
                           fmt::format("row {}", b));
  EXPECT_NE(found.paths[0].words, found.paths[2].words);
}

TEST_P(TokenPassing, LatticesGiveThePlainSearchsLists) {
  constexpr float kLatticeBeam = 1.5f;
  size_t longest = 0;
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const Case c = random_case(seed);
    test::HostWorkspaces workspaces(c.graph.view(), 2, 3);
    std::vector<PassingTrace> traces(kRoom);
    std::vector<PassingLink> links(kRoom);
    PassingBatch batch;
    batch.beam = 4;
    batch.max_active = seed % 2 == 0 ? 5 : 1 << 20;
    batch.traces = traces.data();
    batch.trace_capacity = kRoom;
    batch.lattice_beam = kLatticeBeam;
    batch.links = links.data();
    batch.link_capacity = kRoom;
    std::vector<PassingRow> rows;
    for (size_t b = 0; b < c.lengths.size(); ++b) {
      PassingRow row;
      row.lp = c.lp.data() + b * 3 * static_cast<size_t>(c.frames);
      row.frames = static_cast<int32_t>(c.lengths[b]);
      row.word_costs = c.word_costs.empty() ? nullptr : c.word_costs.data();
      rows.push_back(row);
    }
    std::vector<PassingEnd> ends;
    unsigned long long used = 0;
    std::vector<PassingTrace> history;
    const int64_t traces_used =
        GetParam() == PassingForm::one_kernel
            ? workspaces.run(batch, rows, ends, &used)
            : workspaces.run_phases(batch, rows, ends,
                                    GetParam() == PassingForm::double_buffered_phases, history,
                                    &used);
    const auto all = passing_lattice({links.data(), static_cast<size_t>(used)}, traces_used,
                                     static_cast<int64_t>(rows.size()), kLatticeBeam);
    ViterbiSearch plain(c.graph.view(), batch.beam, batch.max_active);
    for (size_t b = 0; b < rows.size(); ++b) {
      const auto expected =
          plain.run_best(rows[b].lp, rows[b].frames, 3, c.word_costs, 20, kLatticeBeam);
      if (expected.empty()) continue;
      const auto found = best_paths(c.graph.view(), all.lattice, all.ends[b], expected[0], 20);
      ASSERT_EQ(found.size(), expected.size()) << seed;
      for (size_t i = 0; i < found.size(); ++i)
        test::expect_same_path(found[i], expected[i], fmt::format("seed {} entry {}", seed, i));
      longest = std::max(longest, found.size());
    }
  }
  EXPECT_GT(longest, 4U);
}

// Records the calls of search_steps(): "s" for search, "c" for collect, "w" for wait.
struct WrittenSteps {
  std::string written;
  void search(int64_t step) { written += fmt::format("s{} ", step); }
  void collect(int64_t step) { written += fmt::format("c{} ", step); }
  void wait() { written += "w "; }
};

TEST(SearchSteps, WithDoubleBuffersAStepIsUnderWayWhileTheLastIsCollected) {
  const auto order = [](int64_t steps, bool double_buffer) {
    WrittenSteps written;
    search_steps(written, steps, double_buffer);
    return written.written;
  };
  EXPECT_EQ(order(3, false), "s0 c0 w s1 c1 w s2 c2 w ");
  EXPECT_EQ(order(3, true), "s0 s1 c0 s2 c1 c2 w ");
  EXPECT_EQ(order(1, true), "s0 c0 w ");
  EXPECT_EQ(order(0, true), "");
}

TEST_P(TokenPassing, SaysWhenTheTracesDoNotFitAndLeavesTheLanesClean) {
  const Case c = random_case(8);
  const auto all = test::pass_tokens(c.graph.view(), c.lp, c.frames, c.lengths, 1e6f, 1 << 20, 1, 2,
                                     kRoom, {}, GetParam());
  const auto few = test::pass_tokens(c.graph.view(), c.lp, c.frames, c.lengths, 1e6f, 1 << 20, 1, 2,
                                     all.traces_used - 1, {}, GetParam());
  EXPECT_GT(few.traces_used, all.traces_used - 1);
  EXPECT_TRUE(few.clean);
  EXPECT_EQ(std::count(few.status.begin(), few.status.end(), PassingStatus::out_of_traces), 1);
  const auto enough = test::pass_tokens(c.graph.view(), c.lp, c.frames, c.lengths, 1e6f, 1 << 20, 1,
                                        2, all.traces_used, {}, GetParam());
  EXPECT_EQ(std::count(enough.status.begin(), enough.status.end(), PassingStatus::out_of_traces),
            0);
}

}  // namespace
}  // namespace rtfx
