// Every exact greedy decoder against a plain search over integer tables: tokens, frames, durations
// and scores bit for bit, for random batches with ragged lengths (zero included) and NaN padding.
#include <gtest/gtest.h>

#include <random>

#include "algorithms/registry.h"
#include "tests/support/table_model.h"

namespace rtfx {
namespace {

using test::Table;
using test::TableModel;

struct Case {
  TableModel model;
  std::vector<Table> rows;
};

Table random_table(std::mt19937& random, int64_t rows, int64_t columns) {
  std::uniform_int_distribution<int> value(-3, 3);
  Table table(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  for (auto& row : table) {
    for (double& x : row) x = value(random);
  }
  return table;
}

Case random_case(std::mt19937& random, bool tdt, bool two_labels) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Case c;
  c.model.vocabulary = pick(1, 4);
  if (tdt)
    c.model.durations =
        pick(0, 1) == 0 ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{1, 0, 4};
  const int64_t columns = c.model.columns();
  c.model.newest = random_table(random, c.model.vocabulary + 1, columns);
  if (two_labels) c.model.older = random_table(random, c.model.vocabulary + 1, columns);
  const int64_t batch = pick(1, 5);
  for (int64_t b = 0; b < batch; ++b) c.rows.push_back(random_table(random, pick(0, 12), columns));
  return c;
}

std::vector<Hypothesis> run(const std::string& name, const nlohmann::json& options, const Case& c) {
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(test::build(c.model), {});
  return decoder->decode(test::batch_of(c.rows, c.model.columns())).to_host();
}

struct Arm {
  std::string name;
  nlohmann::json options;
};

std::vector<Arm> exact_arms() {
  std::vector<Arm> arms = {
      {"frame_looping", {}},
      {"frame_looping", {{"batched", false}}},
      {"frame_looping", {{"cache_predictor", true}}},
      {"frame_looping", {{"precompute_projections", true}, {"cache_predictor", true}}},
      {"label_looping", {}},
      {"label_looping", {{"precompute_encoder", false}, {"precompute_prediction", false}}}};
  for (const int window : {2, 4, 8}) arms.push_back({"label_looping", {{"window", window}}});
  return arms;
}

class GreedyOracle : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(GreedyOracle, EveryExactDecoderEqualsThePlainSearch) {
  const auto [tdt, two_labels] = GetParam();
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(random, tdt, two_labels);
    const int64_t max_symbols =
        std::vector<int64_t>{1, 2, 3, 5, 10}[static_cast<size_t>(trial % 5)];
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) expected.push_back(test::oracle(c.model, row, max_symbols));
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

INSTANTIATE_TEST_SUITE_P(Heads, GreedyOracle, testing::Combine(testing::Bool(), testing::Bool()));

TEST(TdtMinDuration, IsExactAloneAndNotInABatch) {
  std::mt19937 random(11);
  int different = 0, batches = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Case c = random_case(random, true, false);
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

TEST(FrameLooping, LegacyBudgetSkipsAFrameTooMany) {
  // Section "TDT additive integer model", max_symbols 1: row 0 of the table below.
  const TableModel model{
      2, {0, 1, 2}, {{-1, 2, 1, 1, 3, -1}, {1, -2, -2, -2, 1, 3}, {-2, 3, 0, 1, -2, 0}}, {}};
  const Table row = {{0, 0, 0, -1, -1, -2}, {0, 1, 3, 2, -1, -1},  {2, 3, 4, 2, -2, 0},
                     {-2, 1, 0, -1, 2, 1},  {-1, 0, 1, -2, -2, 2}, {0, 2, 2, -1, -1, -1}};
  const auto legacy =
      run("frame_looping", {{"max_symbols", 1}, {"legacy_budget", true}}, {model, {row}});
  EXPECT_EQ(legacy[0].tokens, (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(legacy[0].frames, (std::vector<int32_t>{0, 1, 4}));
  const auto legacy2 =
      run("frame_looping", {{"max_symbols", 2}, {"legacy_budget", true}}, {model, {row}});
  EXPECT_EQ(legacy2[0].frames, (std::vector<int32_t>{0, 0, 3, 4}));
}

}  // namespace
}  // namespace rtfx
