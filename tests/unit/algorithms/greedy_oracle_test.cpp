// Tests every exact greedy decoder against a plain search over integer tables. Tokens, frames,
// durations and scores must be equal bit for bit. Random batches have ragged lengths (zero
// included) and NaN padding.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/greedy_cases.h"

namespace rtfx {
namespace {

using namespace test;

class GreedyOracle : public testing::TestWithParam<std::tuple<TransducerKind, bool>> {};

TEST_P(GreedyOracle, EveryExactDecoderEqualsThePlainSearch) {
  const auto [kind, two_labels] = GetParam();
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(random, kind, two_labels);
    const int64_t max_symbols =
        std::vector<int64_t>{1, 2, 3, 5, 10}[static_cast<size_t>(trial % 5)];
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) expected.push_back(oracle(c.model, row, max_symbols));
    for (Arm arm : exact_arms()) {
      arm.options["max_symbols"] = max_symbols;
      const auto actual = run(arm.name, arm.options, c);
      for (size_t b = 0; b < expected.size(); ++b) {
        EXPECT_EQ(actual[b], expected[b])
            << arm.name << arm.options << " trial " << trial << " row " << b;
      }
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, GreedyOracle,
                         testing::Combine(testing::ValuesIn(kTransducerKinds), testing::Bool()));

TEST(TdtMinDuration, IsExactAloneAndNotInABatch) {
  std::mt19937 random(11);
  int different = 0, batches = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Case c = random_case(random, TransducerKind::tdt, false);
    c.model.durations = {0, 1, 2, 3};
    c.model.newest = random_table(random, c.model.vocabulary + 1, c.model.columns());
    for (Table& row : c.rows)
      row = random_table(random, static_cast<int64_t>(row.size()), c.model.columns());
    const nlohmann::json options = {{"max_symbols", 3}};
    const auto reference = run("label_looping", options, c);
    const auto together = run("tdt_min_duration", options, c);
    for (size_t b = 0; b < c.rows.size(); ++b) {
      const auto alone = run("tdt_min_duration", options, {c.model, {c.rows[b]}});
      EXPECT_EQ(alone[0], reference[b]) << "trial " << trial;
    }
    if (c.rows.size() > 1) {
      ++batches;
      different += together != reference;
    }
  }
  EXPECT_GT(different, 0) << "of " << batches << " batches";
}

TEST(FrameLooping, CompatibilityWithNemoSkipsAFrameTooMany) {
  // This is section "TDT additive integer model" with max_symbols 1, and row 0 of the table below.
  const TableModel model{
      2, {0, 1, 2}, {{-1, 2, 1, 1, 3, -1}, {1, -2, -2, -2, 1, 3}, {-2, 3, 0, 1, -2, 0}}, {}};
  const Table row = {{0, 0, 0, -1, -1, -2}, {0, 1, 3, 2, -1, -1},  {2, 3, 4, 2, -2, 0},
                     {-2, 1, 0, -1, 2, 1},  {-1, 0, 1, -2, -2, 2}, {0, 2, 2, -1, -1, -1}};
  const auto legacy =
      run("frame_looping", {{"max_symbols", 1}, {"compatibility", "nemo"}}, {model, {row}});
  EXPECT_EQ(legacy[0].tokens, (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(legacy[0].frames, (std::vector<int32_t>{0, 1, 4}));
  const auto legacy2 =
      run("frame_looping", {{"max_symbols", 2}, {"compatibility", "nemo"}}, {model, {row}});
  EXPECT_EQ(legacy2[0].frames, (std::vector<int32_t>{0, 0, 3, 4}));
}

}  // namespace
}  // namespace rtfx
