// Boosted phrases and allowed characters in searches, also with biases of single rows of a batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/beam_cases.h"
#include "tests/support/boost_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

const nlohmann::json kWeightedBlank = {{"blank_scoring", "lm_weighted_full"}};

/// Rows of a batch have the decoder's phrases, further phrases, or a mask of characters. Each row
/// must give its result of a batch of one, where the decoder's options hold the row's biases. The
/// next batch has its rows in another order, so biases of an earlier batch would be seen.
TEST(BoostedBeams, RowsAreAsTheyAreAlone) {
  std::mt19937 random(83);
  struct Arm {
    std::string name;
    nlohmann::json options;
  };
  const std::vector<Arm> arms = {
      {"label_looping", {}},
      {"label_looping", {{"window", 4}}},
      {"frame_looping", {}},
      {"alsd_pp", {{"beam_size", 2}}},
      {"alsd_pp", {{"beam_size", 2}, {"boost", kWeightedBlank}}},
      {"alsd_pp", {{"beam_size", 2}, {"kernels", "fused"}}},
      {"alsd_pp", {{"beam_size", 2}, {"kernels", "fused"}, {"boost", kWeightedBlank}}},
      {"aes_pp", {{"beam_size", 2}, {"expansion_beta", 0}}},
      {"aes_pp", {{"beam_size", 2}, {"expansion_beta", 0}, {"kernels", "fused"}}},
      {"modified_beam_search", {{"beam_size", 2}, {"boost", kWeightedBlank}}},
      {"modified_beam_search", {{"beam_size", 2}, {"kernels", "fused"}}},
      {"ctc_greedy", {}},
      {"ctc_beam", {}},
      {"ctc_beam", {{"kernels", "fused"}}}};
  for (int trial = 0; trial < 8 && !HasFailure(); ++trial) {
    BeamCase c = random_beam_case(random, trial % 2 == 0, 4, 4, {6, 9, 0, 8, 7});
    const std::vector<std::string> only = {"b", "c"};
    for (const Arm& arm : arms) {
      const bool ctc = arm.name.starts_with("ctc");
      const auto model = ctc ? identity_model(4) : build(c.model);
      std::vector<Table> rows = c.rows;
      if (ctc)
        for (Table& row : rows)
          for (auto& frame : row) frame.resize(5);
      const int64_t columns = ctc ? 5 : c.model.columns();
      const PlainBoost own = random_boost(random, 4, 3, 3);
      PlainBoost extra = random_boost(random, 4, 3, 3);
      extra.scaling = own.scaling;
      extra.unknown = own.unknown;
      extra.scale = own.scale;
      PlainBoost both = own;
      both.phrases.insert(both.phrases.end(), extra.phrases.begin(), extra.phrases.end());

      const auto boosted = [&](const PlainBoost& boost) {
        nlohmann::json options = arm.options;
        options["boost"].update(boost.option());
        return options;
      };
      const nlohmann::json options = boosted(own);
      BoostedSearch together(arm.name, options, model, batch_of(rows, columns));
      const auto more = together.decoder->compile_bias({phrases_of(extra), {}, ""});
      const auto masked = together.decoder->compile_bias({{}, only, "row 3"});
      const std::vector<std::shared_ptr<const CompiledBias>> sets = {nullptr, more, masked, masked,
                                                                     more};
      const auto alone = [&](size_t row) {
        nlohmann::json of_row = boosted(sets[row] == more ? both : own);
        if (sets[row] == masked) of_row["allowed"] = only;
        return BoostedSearch(arm.name, of_row, model, batch_of({rows[row]}, columns))().front();
      };
      together.batch.biases = sets;
      const auto found = together();
      BoostedSearch turned(arm.name, options, model,
                           batch_of({rows[4], rows[3], rows[2], rows[1], rows[0]}, columns));
      turned.decoder->decode(turned.batch);  // no row has biases
      turned.batch.biases = {sets[4], sets[3], sets[2], sets[1], sets[0]};
      const auto found_turned = turned();
      for (size_t row = 0; row < rows.size(); ++row) {
        const Hypothesis expected = alone(row);
        expect_same(found[row], expected, arm.name + options.dump() + std::to_string(row));
        expect_same(found_turned[4 - row], expected, arm.name + " turned");
        if (sets[row] == masked) {
          for (const int32_t token : expected.tokens) EXPECT_TRUE(token == 1 || token == 2);
        }
      }
    }
  }
}

/// With a beam that loses nothing, a text's score is the sum over its alignments and its bonus.
TEST(BoostedBeams, BeamsAddTheBonusOfTheText) {
  std::mt19937 random(84);
  constexpr int64_t kBeam = 50;
  const SmallLm lm(kBeam);
  const auto lm_score = [&](const Text& text) {
    double sum = 0;
    for (size_t u = 0; u < text.size(); ++u)
      sum += 0.7 * lm.score({text.begin(), text.begin() + static_cast<int64_t>(u)}, text[u]);
    return sum;
  };
  for (int trial = 0; trial < 6 && !HasFailure(); ++trial) {
    const bool with_lm = trial % 2 == 1;
    const BeamCase c = random_beam_case(random, false, kBeam, 2, {2, 1});
    const PlainBoost boost = random_boost(random, 2, 3, 2);
    const auto bonus = [&](const Text& text) {
      double sum = boost.end(text) + (with_lm ? lm_score(text) : 0);
      for (size_t u = 0; u < text.size(); ++u)
        sum += boost.score({text.begin(), text.begin() + static_cast<int64_t>(u)}, text[u]);
      return sum;
    };
    for (const char* kernels : {"operators", "fused"}) {
      nlohmann::json options = {{"beam_size", kBeam},
                                {"nbest", kBeam},
                                {"max_symbols", 2},
                                {"kernels", kernels},
                                {"boost", boost.option()}};
      if (with_lm)
        options["lm"] = {{"path", lm.path()}, {"alpha", 0.7}, {"blank_scoring", "no_score"}};
      const auto found =
          BoostedSearch("alsd_pp", options, build(c.model), batch_of(c.rows, c.model.columns()))();
      for (size_t b = 0; b < c.rows.size(); ++b) {
        const NextOf next = next_of(c.model, c.rows[b]);
        for (const Text& text : all_texts(2, 1)) {
          EXPECT_NEAR(listed_score(found[b], text),
                      exact_score(next, c.rows[b].size(), c.model, text) + bonus(text), 1e-4)
              << options << testing::PrintToString(text);
        }
      }
    }
    // CTC sums over all label sequences of a text.
    std::vector<Table> rows = c.rows;
    for (Table& row : rows)
      for (auto& frame : row) frame.resize(static_cast<size_t>(kBeam + 1));
    for (const char* kernels : {"operators", "fused"}) {
      nlohmann::json options = {{"beam_size", kBeam},      {"nbest", kBeam},
                                {"beam_threshold", 1000},  {"kernels", kernels},
                                {"boost", boost.option()}, {"lm_end", false}};
      if (with_lm) options["lm"] = {{"path", lm.path()}, {"alpha", 0.7}};
      const auto found =
          BoostedSearch("ctc_beam", options, identity_model(kBeam), batch_of(rows, kBeam + 1))();
      for (const Text& text : all_texts(2, 2)) {
        if (text.size() != 1) continue;
        const auto k = static_cast<size_t>(text[0]);
        const auto first = log_softmax(rows[0][0], 0, kBeam + 1),
                   second = log_softmax(rows[0][1], 0, kBeam + 1);
        const double expected = log_add(first[k] + second[kBeam],
                                        log_add(first[kBeam] + second[k], first[k] + second[k]));
        EXPECT_NEAR(listed_score(found[0], text), expected + bonus(text), 1e-4) << options;
      }
    }
  }
}

TEST(BoostedBeams, FusedBeamsEqualTheOperators) {
  std::mt19937 random(85);
  const SmallLm lm(8);
  for (int trial = 0; trial < 60 && !HasFailure(); ++trial) {
    const bool tdt = trial % 2 == 0;
    const BeamCase c = random_beam_case(random, tdt, 8, 8, {5, 9, 7});
    for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"}) {
      const bool ctc = std::string(name) == "ctc_beam";
      nlohmann::json options = {
          {"beam_size", 4}, {"nbest", 4}, {"boost", random_boost(random, 8, 6, 3).option()}};
      // Sums of long texts may differ only by rounding.
      if (std::string(name) == "alsd_pp") options["max_symbols"] = 2;
      if (trial % 3 == 0) {
        options["lm"] = {{"path", lm.path()}, {"alpha", trial % 2 == 0 ? 0.6 : 0.0}};
        if (!ctc) options["lm"]["pruning"] = trial % 4 < 2 ? "early" : "late";
      }
      if (!ctc && trial % 4 > 0) options["boost"].update(kWeightedBlank);
      if (trial % 5 == 0) options["allowed"] = {"U+0061-U+0067"};
      std::vector<Table> rows = c.rows;
      if (ctc)
        for (Table& row : rows)
          for (auto& frame : row) frame.resize(9);
      const auto batch = batch_of(rows, ctc ? 9 : c.model.columns());
      const auto model = ctc ? identity_model(8) : build(c.model);
      const auto expected = BoostedSearch(name, options, model, batch)();
      options["kernels"] = "fused";
      const auto found = BoostedSearch(name, options, model, batch)();
      for (size_t b = 0; b < expected.size(); ++b)
        expect_same(found[b], expected[b], name + options.dump());
    }
  }
}

/// A language model has options that would act on phrases even at weight 0.
TEST(BoostedBeams, ALanguageModelWithoutWeightChangesNothing) {
  std::mt19937 random(86);
  const SmallLm lm(6);
  for (const bool tdt : {false, true}) {
    for (const char* compatibility : {"none", "nemo"}) {
      const BeamCase c = random_beam_case(random, tdt, 6, 6, {7, 5});
      const auto batch = batch_of(c.rows, c.model.columns());
      for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search"}) {
        nlohmann::json options = {
            {"beam_size", 3}, {"nbest", 3}, {"boost", random_boost(random, 6, 6, 3).option()}};
        if (std::string(name) == "alsd_pp") options["max_symbols"] = 1;  // forces blanks
        if (std::string(name) != "modified_beam_search") options["compatibility"] = compatibility;
        for (const char* blank_scoring : {"no_score", "lm_weighted_full"}) {
          options["boost"]["blank_scoring"] = blank_scoring;
          for (const char* kernels : {"operators", "fused"}) {
            options["kernels"] = kernels;
            const auto expected = BoostedSearch(name, options, build(c.model), batch)();
            nlohmann::json with_lm = options;
            with_lm["lm"] = {
                {"path", lm.path()}, {"alpha", 0}, {"pruning", "early"}, {"blank_eps", 0.5}};
            EXPECT_EQ(BoostedSearch(name, with_lm, build(c.model), batch)(), expected)
                << name << with_lm;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rtfx
