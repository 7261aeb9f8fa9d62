// Tests boosted phrases and allowed characters in greedy searches against plain searches on table
// models, also with a language model. Other tests show which options are refused.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "algorithms/shared/biasing/compiled_bias.h"
#include "base/error.h"
#include "tests/support/boost_cases.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class Boosted : public TempFolder {};

/// Returns `table` with the `forbidden` tokens made impossible.
Table masked(Table table, const std::vector<int32_t>& forbidden) {
  for (auto& frame : table)
    for (const int32_t k : forbidden) frame[static_cast<size_t>(k)] = -1e30;
  return table;
}

TEST_F(Boosted, TransducersEqualThePlainSearch) {
  std::mt19937 random(81);
  int different = 0;
  for (int trial = 0; trial < 32 && !HasFailure(); ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const int64_t vocabulary = c.model.vocabulary;
    const PlainBoost boost = random_boost(random, vocabulary, 4, 4);
    const bool with_lm = trial % 3 == 0, with_mask = trial % 5 == 0 && vocabulary > 1;
    const LmCase lm = random_lm(random, vocabulary, path("lm" + std::to_string(trial) + ".arpa"));
    const auto bonus = [&](const PlainBoost::Tokens& before, int32_t k) {
      return boost.score(before, k) + (with_lm ? lm.bonus(before, k) : 0);
    };
    nlohmann::json options = {{"boost", boost.option()}};
    if (with_lm) options["lm"] = lm.option;
    const std::vector<int32_t> forbidden =
        with_mask ? std::vector<int32_t>{0} : std::vector<int32_t>{};
    if (with_mask) options["allowed"] = {"U+0062-U+007A"};
    for (Arm arm : lm_arms()) {
      arm.options.update(options);
      const auto found = BoostedSearch(arm.name, arm.options, build(c.model),
                                       batch_of(c.rows, c.model.columns()))();
      for (size_t b = 0; b < c.rows.size(); ++b) {
        const Table row = masked(c.rows[b], forbidden);
        const Hypothesis expected = oracle(c.model, row, 10, bonus);
        different += expected.tokens != oracle(c.model, c.rows[b], 10).tokens;
        expect_same(found[b], expected, arm.name + arm.options.dump());
      }
    }
  }
  EXPECT_GT(different, 100);
}

TEST_F(Boosted, CtcGreedyEqualsThePlainSearch) {
  std::mt19937 random(82);
  int different = 0;
  for (int trial = 0; trial < 40 && !HasFailure(); ++trial) {
    const int64_t vocabulary = 2 + trial % 4;
    const PlainBoost boost = random_boost(random, vocabulary, 4, 4);
    LmCase as_lm = random_lm(random, vocabulary, path("lm" + std::to_string(trial) + ".arpa"));
    std::vector<Table> rows;
    for (int b = 0; b < 4; ++b)
      rows.push_back(random_table(random, static_cast<int64_t>(random() % 14), vocabulary + 1));
    nlohmann::json options = {{"boost", boost.option()}};
    if (trial % 2 == 0) options["lm"] = as_lm.option;
    const auto found = BoostedSearch("ctc_greedy", options, identity_model(vocabulary),
                                     batch_of(rows, vocabulary + 1))();
    for (size_t b = 0; b < rows.size(); ++b) {
      const auto bonus = [&](const PlainBoost::Tokens& before, int32_t k) {
        return boost.score(before, k) + (trial % 2 == 0 ? as_lm.bonus(before, k) : 0);
      };
      const Hypothesis expected = ctc_oracle(rows[b], bonus);
      different +=
          expected.tokens != ctc_oracle(rows[b], [](const auto&, int32_t) { return 0.0; }).tokens;
      expect_same(found[b], expected, options.dump());
    }
  }
  EXPECT_GT(different, 20);
}

TEST_F(Boosted, AnEmptyListOfCharactersAllowsAll) {
  std::mt19937 random(87);
  const Case c = random_case(random, false, true);
  const BoostedSearch search("label_looping", {{"allowed", {"U+0061-U+007A"}}}, build(c.model),
                             batch_of(c.rows, c.model.columns()));
  EXPECT_TRUE(search.decoder->compile_bias({})->forbidden.defined());
  const std::vector<std::string> all;
  EXPECT_FALSE(search.decoder->compile_bias({{}, all, "test"})->forbidden.defined());
}

TEST_F(Boosted, AScaleOfZeroChangesNothing) {
  std::mt19937 random(86);
  const Case c = random_case(random, false, true);
  PlainBoost boost = random_boost(random, c.model.vocabulary, 4, 3);
  boost.scale = 0;
  const BoostedSearch search("label_looping", {{"boost", boost.option()}}, build(c.model),
                             batch_of(c.rows, c.model.columns()));
  EXPECT_EQ(search(), run("label_looping", {}, c));
  EXPECT_EQ(search.decoder->describe().exactness, Description::Exactness::exact);
  EXPECT_EQ(search.decoder->boosted_words().size(), boost.phrases.size());
}

TEST_F(Boosted, WhatCannotBeIsSaid) {
  std::mt19937 random(87);
  Case c = random_case(random, false, false);
  c.model.vocabulary = 4;
  c.model.newest = random_table(random, 5, 5);
  c.rows = {random_table(random, 2, 5)};
  const auto prepared = [&](const std::string& name, const nlohmann::json& options) {
    return user_error(
        [&] { BoostedSearch(name, options, build(c.model), batch_of(c.rows, c.model.columns())); });
  };
  EXPECT_EQ(prepared("label_looping", {{"boost", {{"phrases", {"ab", "xy"}}}}}),
            "/boost/phrases/1: the model's tokenizer cannot spell 'xy'; write it as the model's "
            "texts have it, or set \"spellings\": \"any\"");
  EXPECT_EQ(prepared("label_looping", {{"boost", {{"phrases", {"AB"}}, {"spellings", "any"}}}}),
            "");
  EXPECT_HAS(prepared("label_looping", {{"allowed", {"lattin"}}}),
             "allowed: 'lattin' names no characters");
  EXPECT_HAS(prepared("alsd_pp", {{"allowed", {"cyrillic"}}}),
             "none of the model's tokens has an allowed letter");
  EXPECT_HAS(prepared("label_looping", {{"boost", {{"phrases", {"ab"}}}}, {"loop", "script"}}),
             "knows no window, language model, boosted phrases");
  const auto null = make_decoder("null", {}, "");
  EXPECT_HAS(user_error([&] { null->compile_bias({}); }), "null: has no phrases");
  std::ofstream(path("names.txt")) << "ab\n\nbc\t2.5\nnope\t1\n";
  EXPECT_HAS(prepared("label_looping", {{"boost", {{"path", path("names.txt").string()}}}}),
             path("names.txt").string() + ":4: the model's tokenizer cannot spell 'nope'");
}

}  // namespace
}  // namespace rtfx
