// Tests beam searches on the worked example of the specification, and a beam of one against greedy
// search. Edge cases are empty rows, ties, and batches of every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "algorithms/gpu/host_read.h"
#include "base/error.h"
#include "tests/support/beam_cases.h"
#include "tests/support/greedy_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

/// Returns a transducer whose probabilities depend on the frame (0 or 1), and on whether no, one or
/// more tokens came before. Hidden unit (t, n) is 1 in its case and 0 otherwise, because it is the
/// relu of two ones less one. Two tokens are possible, and two more are impossible but allow beams
/// of up to four.
std::shared_ptr<const AcousticModel> counting_model() {
  const double p[2][3][3] = {{{.5, .2, .3}, {.1, .3, .6}, {.1, .1, .8}},
                             {{.3, .3, .4}, {.2, .5, .3}, {.1, .1, .8}}};  // tokens 0, 1, blank
  constexpr int64_t kVocabulary = 4, kUnits = 6;
  auto model = std::make_shared<AcousticModel>();
  model->config.has_transducer = true;
  model->config.vocabulary = kVocabulary;
  model->config.prediction.kind = PredictionConfig::Kind::stateless;
  model->config.prediction.context_size = 2;
  model->config.prediction.width = 4;  // newest label: 3, the one before: 1
  StateDict weights;
  at::Tensor newest = at::zeros({kVocabulary + 1, 3}), older = at::zeros({kVocabulary + 1, 1});
  newest.narrow(0, 0, kVocabulary).select(1, 0).fill_(1);  // a label came before
  older.narrow(0, 0, kVocabulary).fill_(1);                // two labels came before
  weights["decoder.prediction.embeds.0.weight"] = newest;
  weights["decoder.prediction.embeds.1.weight"] = older;
  at::Tensor enc = at::zeros({kUnits, 2}), pred = at::zeros({kUnits, 4}),
             bias = at::zeros({kUnits}), out = at::zeros({kVocabulary + 1, kUnits});
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t n = 0; n < 3; ++n) {
      const int64_t unit = 3 * t + n;
      enc[unit][t] = 1;
      bias[unit] = n == 0 ? 1 : 0;  // n = 0: 1 - a, n = 1: a - b, n = 2: b
      pred[unit][0] = n == 0 ? -1 : n == 1 ? 1 : 0;
      pred[unit][3] = n == 0 ? 0 : n == 1 ? -1 : 1;
      for (const int64_t k : {0, 1}) out[k][unit] = std::log(p[t][n][k]);
      out[kVocabulary][unit] = std::log(p[t][n][2]);
    }
  }
  weights["joint.enc.weight"] = enc;
  weights["joint.enc.bias"] = at::full({kUnits}, -1);
  weights["joint.pred.weight"] = pred;
  weights["joint.pred.bias"] = bias;
  weights["joint.joint_net.weight"] = out;
  weights["joint.joint_net.bias"] = at::tensor({0., 0., -1e4, -1e4, 0.}, at::kFloat);
  model->prediction.emplace(model->config.prediction, kVocabulary, weights, at::kCPU, at::kFloat);
  model->joint.emplace(weights, "relu", 0, at::kCPU, at::kFloat);
  return model;
}

struct Line {
  Text tokens;
  double score;
};

/// Expects the list of all possible texts, best first.
void expect_list(const std::string& name, nlohmann::json options, const std::vector<Line>& expected,
                 int64_t steps = 0) {
  options["score_norm"] = false;
  options["nbest"] = 5;
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(counting_model(), {});
  const auto rows = decoder->decode({at::eye(2).unsqueeze(0), at::tensor({2}, at::kLong), {2}});
  std::vector<Hypothesis> found = rows.to_host()[0].nbest;
  std::erase_if(found, [](const Hypothesis& h) { return h.score < -1000; });
  ASSERT_EQ(found.size(), expected.size()) << name << options;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << name << options << i;
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-4) << name << options << i;
  }
  if (steps > 0) {
    EXPECT_EQ(decoder->counters().at("outer_iters"), steps) << options;
  }
}

TEST(BeamGolden, TheWorkedExample) {
  const Line both{{0, 1}, -1.5325}, empty{{}, -2.1203}, three{{0, 1, 0}, -3.8351};
  for (const char* step : {"operators", "fused"}) {
    const auto alsd_pp = [step](int beam) {
      return nlohmann::json{{"beam_size", beam}, {"max_symbols", 2}, {"kernels", step}};
    };
    expect_list("alsd_pp", alsd_pp(2), {both, three}, 5);
    expect_list("alsd_pp", alsd_pp(3), {both, empty, three});
    expect_list("alsd_pp", alsd_pp(4), {both, empty, {{0}, -2.4079}, three});
  }
  const auto alsd = [](int beam) {
    return nlohmann::json{{"beam_size", beam}, {"max_target_ratio", 2}};
  };
  expect_list("alsd", alsd(1), {{{0, 1}, -2.1203}, {{0}, -2.4079}});
  expect_list("alsd", alsd(2), {both, empty, {{0}, -2.4079}, three, {{0, 1, 0, 0}, -6.1376}});
}

TEST(BeamGolden, TheWorkedExampleWithABeamOfOne) {
  const auto decoder = make_decoder("alsd_pp", {{"beam_size", 1}, {"max_symbols", 2}}, "");
  decoder->prepare(counting_model(), {});
  const auto rows = decoder->decode({at::eye(2).unsqueeze(0), at::tensor({2}, at::kLong), {2}});
  const Hypothesis best = rows.to_host()[0];
  EXPECT_EQ(best.tokens, (Text{0, 1}));
  EXPECT_NEAR(best.score, -2.1203, 1e-4);
  EXPECT_EQ(decoder->counters().at("outer_iters"), 4);
}

TEST(BeamGolden, ABeamOfOneIsGreedySearch) {
  std::mt19937 random(17);
  int compared = 0;
  for (int trial = 0; trial < 80; ++trial) {
    const bool tdt = trial % 2 == 0;
    const Case c = random_case(random, tdt, trial % 4 < 2);
    // After max_symbols tokens of duration 0, greedy TDT moves on by one frame, and the beam search
    // by the duration of a blank. So rows that reach this limit are skipped.
    const int64_t max_symbols = tdt ? 30 : 1 + trial % 5;
    const auto found = test::run("alsd_pp", {{"beam_size", 1}, {"max_symbols", max_symbols}}, c);
    for (size_t b = 0; b < c.rows.size(); ++b) {
      const Hypothesis greedy = oracle(c.model, c.rows[b], max_symbols);
      if (tdt && std::count(greedy.durations.begin(), greedy.durations.end(), 0) >= max_symbols)
        continue;
      ++compared;
      EXPECT_EQ(found[b].tokens, greedy.tokens) << trial;
      EXPECT_EQ(found[b].frames, greedy.frames) << trial;
      EXPECT_EQ(found[b].durations, greedy.durations) << trial;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 150);
}

const std::vector<Arm>& beam_arms() {
  static const std::vector<Arm> arms = [] {
    std::vector<Arm> all;
    for (const int beam : {1, 4}) {
      all.push_back({"alsd", {{"beam_size", beam}}});
      all.push_back({"aes", {{"beam_size", beam}}});
      all.push_back({"alsd_pp", {{"beam_size", beam}}});
      all.push_back({"alsd_pp", {{"beam_size", beam}, {"merge_finished", true}}});
      all.push_back({"alsd_pp", {{"beam_size", beam}, {"kernels", "fused"}}});
      all.push_back({"aes_pp", {{"beam_size", beam}}});
      all.push_back({"aes_pp", {{"beam_size", beam}, {"compatibility", "nemo"}}});
      all.push_back({"aes_pp", {{"beam_size", beam}, {"kernels", "fused"}}});
      all.push_back({"modified_beam_search", {{"beam_size", beam}}});
      all.push_back({"modified_beam_search", {{"beam_size", beam}, {"kernels", "fused"}}});
    }
    for (Arm& arm : all) arm.options["nbest"] = 4;
    return all;
  }();
  return arms;
}

TEST(Beam, AnUtteranceDoesNotDependOnItsBatch) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 4; ++trial) {
    const BeamCase c = random_beam_case(random, trial % 2 == 0, 8, 8, {5, 0, 9, 1, 7, 2});
    BeamCase reversed = c;
    std::reverse(reversed.rows.begin(), reversed.rows.end());
    for (const Arm& arm : beam_arms()) {
      const auto together = test::run(arm.name, arm.options, c);
      auto backwards = test::run(arm.name, arm.options, reversed);
      std::reverse(backwards.begin(), backwards.end());
      for (size_t b = 0; b < c.rows.size(); ++b) {
        const std::string what = arm.name + arm.options.dump() + " row " + std::to_string(b);
        expect_same(backwards[b], together[b], what + " backwards");
        const auto alone = test::run(arm.name, arm.options, {c.model, {c.rows[b]}, c.tokens});
        expect_same(alone[0], together[b], what + " alone");
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Beam, ListsAreSortedAndFinite) {
  std::mt19937 random(29);
  for (int trial = 0; trial < 4; ++trial) {
    const bool tdt = trial % 2 == 0;
    const BeamCase c = random_beam_case(random, tdt, 8, 8, {6, 0, 1, 12});
    for (const Arm& arm : beam_arms()) {
      const auto rows = test::run(arm.name, arm.options, c);
      for (size_t b = 0; b < rows.size(); ++b) {
        const auto& list = rows[b].nbest;
        ASSERT_FALSE(list.empty()) << arm.name << arm.options;
        EXPECT_FALSE(rows[b].nan);
        EXPECT_EQ(list[0].tokens, rows[b].tokens);
        std::set<Text> texts;
        for (size_t i = 0; i < list.size(); ++i) {
          EXPECT_TRUE(std::isfinite(list[i].score));
          texts.insert(list[i].tokens);
          EXPECT_TRUE(std::is_sorted(list[i].frames.begin(), list[i].frames.end()));
          EXPECT_EQ(list[i].durations.size(), tdt ? list[i].tokens.size() : 0);
          for (const int32_t frame : list[i].frames)
            EXPECT_LT(frame, static_cast<int32_t>(c.rows[b].size()));
          const auto key = [](const Hypothesis& h) {
            return h.score / static_cast<float>(h.tokens.size() + 1);
          };
          if (i > 0) {
            EXPECT_GE(key(list[i - 1]) + 1e-5, key(list[i])) << arm.name << arm.options;
          }
        }
        if (!tdt) {
          EXPECT_EQ(texts.size(), list.size()) << arm.name << arm.options;
        }
        if (c.rows[b].empty()) {
          EXPECT_EQ(list.size(), 1);
          EXPECT_TRUE(rows[b].tokens.empty());
          EXPECT_EQ(rows[b].score, 0);
        }
      }
    }
  }
}

TEST(Beam, OnlyBlanksAndNeverABlank) {
  for (const bool tdt : {false, true}) {
    for (const double blank : {50., -50.}) {
      BeamCase c{{4, {}, Table(5, std::vector<double>(tdt ? 7 : 5, 0)), {}}, {}, 4};
      if (tdt) c.model.durations = {0, 1};
      std::vector<double> frame(tdt ? 7 : 5, 0);
      frame[4] = blank;
      if (tdt) frame[5] = 50;  // duration 0
      c.rows = {Table(6, frame)};
      // alsd takes as many tokens as it has steps, twice the frames, and never reaches an end.
      for (const auto& [name, per_frame] : {std::pair{"alsd_pp", 3},
                                            {"aes_pp", 3},
                                            {"aes", 3},
                                            {"alsd", 2},
                                            {"modified_beam_search", 1}}) {
        nlohmann::json options = {{"beam_size", 2}};
        if (name == std::string("alsd_pp")) options["max_symbols"] = 3;
        if (std::string(name).starts_with("aes")) options["num_steps"] = 3;
        const Hypothesis h = test::run(name, options, c)[0];
        const size_t expected = blank > 0 ? 0 : 6 * static_cast<size_t>(per_frame);
        EXPECT_EQ(h.tokens.size(), expected) << name << " tdt " << tdt;
      }
    }
  }
}

TEST(Beam, TheTreeHasRoomForEverySymbolThatThereCanBe) {
  // Blank never wins in six frames of three tokens, so every column of the tree is used.
  const BeamCase c{{4, {}, Table(5, std::vector<double>(5, 0)), {}},
                   {Table(6, {0, 0, 0, 0, -50}), Table(2, {0, 0, 0, 0, -50})},
                   4};
  const auto decoder = make_decoder("alsd_pp", {{"beam_size", 2}, {"max_symbols", 3}}, "");
  decoder->prepare(build(c.model), {});
  const auto rows = decoder->decode(batch_of(c.rows, 5)).to_host();
  EXPECT_EQ(decoder->counters().at("outer_iters"), 6 * (3 + 1));
  EXPECT_EQ(rows[0].tokens.size(), 6 * 3);
  EXPECT_EQ(rows[1].tokens.size(), 2 * 3);
}

TEST(Beam, HalfPrecisionModelsGiveFiniteScores) {
  std::mt19937 random(61);
  const BeamCase c = random_beam_case(random, true, 8, 8, {9, 0, 4});
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const Arm& arm : beam_arms()) {
      const auto decoder = make_decoder(arm.name, arm.options, "");
      decoder->prepare(build(c.model, at::kCPU, dtype), {});
      const auto batch = batch_of(c.rows, c.model.columns(), at::kCPU, dtype);
      for (const Hypothesis& h : decoder->decode(batch).to_host()) {
        EXPECT_FALSE(h.nan) << arm.name;
        EXPECT_TRUE(std::isfinite(h.score)) << arm.name;
      }
    }
  }
}

TEST(Beam, EveryReadIsDeclared) {
  std::mt19937 random(67);
  const BeamCase c = random_beam_case(random, true, 8, 8, {9, 0, 4});
  const SmallLm lm(8);
  for (Arm arm : beam_arms()) {
    if (arm.name != "alsd") arm.options["lm"] = {{"path", lm.path()}, {"alpha", 0.3}};
    const auto decoder = make_decoder(arm.name, arm.options, "");
    decoder->prepare(build(c.model), {});
    const auto batch = batch_of(c.rows, c.model.columns());
    EXPECT_NO_THROW(forbid_undeclared_syncs([&] { decoder->decode(batch); })) << arm.name;
  }
}

TEST(Beam, EqualScoresGoToTheLowestLabel) {
  // All labels are equally likely, so token 0 comes first, and blank, the last label, comes last.
  const BeamCase c{
      {4, {}, Table(5, std::vector<double>(5, 0)), {}}, {Table(1, {0, 0, 0, 0, 0})}, 4};
  const nlohmann::json options = {
      {"beam_size", 3}, {"nbest", 3}, {"max_symbols", 1}, {"score_norm", false}};
  const Hypothesis h = test::run("alsd_pp", options, c)[0];
  ASSERT_EQ(h.nbest.size(), 3);
  for (int32_t k = 0; k < 3; ++k) EXPECT_EQ(h.nbest[static_cast<size_t>(k)].tokens, (Text{k}));
}

TEST(Beam, NanIsReported) {
  std::mt19937 random(31);
  BeamCase c = random_beam_case(random, false, 8, 8, {4, 4});
  c.rows[1][2][3] = std::nan("");
  for (const Arm& arm : beam_arms()) {
    const auto rows = test::run(arm.name, arm.options, c);
    EXPECT_FALSE(rows[0].nan) << arm.name;
    EXPECT_TRUE(rows[1].nan) << arm.name;
  }
  // Counters include the row with the NaN.
  const auto decoder = make_decoder("alsd", {}, "");
  decoder->prepare(test::build(c.model), {});
  decoder->decode(test::batch_of(c.rows, c.model.columns()));
  const Counters counters = decoder->counters();
  EXPECT_EQ(counters.at("joint_calls"), counters.at("outer_iters"));
}

TEST(Beam, ALanguageModelWithoutWeightChangesNothing) {
  std::mt19937 random(37);
  const SmallLm lm(8);
  for (int trial = 0; trial < 4; ++trial) {
    const BeamCase c = random_beam_case(random, trial % 2 == 0, 8, 8, {5, 9});
    for (const Arm& arm : beam_arms()) {
      if (arm.name == "alsd") continue;
      Arm fused = arm;
      fused.options["lm"] = {{"path", lm.path()}, {"alpha", 0}};
      const auto without = test::run(arm.name, arm.options, c);
      EXPECT_EQ(test::run(fused.name, fused.options, c), without) << arm.name << arm.options;
      fused.options["lm"]["alpha"] = 2;
      EXPECT_NE(test::run(fused.name, fused.options, c), without) << arm.name << arm.options;
    }
  }
}

TEST(Beam, ABeamLargerThanTheVocabularyIsAnError) {
  std::mt19937 random(41);
  const BeamCase c = random_beam_case(random, false, 4, 4, {3});
  for (const char* name : {"alsd", "aes", "alsd_pp", "aes_pp", "modified_beam_search"}) {
    try {
      test::run(name, {{"beam_size", 5}}, c);
      ADD_FAILURE() << name;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("4 tokens"), std::string::npos) << e.what();
    }
  }
  for (const char* name : {"aes", "aes_pp"}) {
    try {
      test::run(name, {{"beam_size", 4}, {"expansion_beta", 3}}, c);
      ADD_FAILURE() << name;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find("beam_size 4 + expansion_beta 3 is larger"),
                std::string::npos)
          << e.what();
    }
  }
}

TEST(Beam, ATemperatureDividesTheLogits) {
  std::mt19937 random(43);
  const BeamCase c = random_beam_case(random, true, 8, 8, {6, 3});
  BeamCase halved = c;
  for (auto* tables : {&halved.model.newest, &halved.model.older, &halved.rows[0], &halved.rows[1]})
    for (auto& row : *tables)
      for (double& x : row) x /= 2;
  for (const Arm& arm : beam_arms()) {
    Arm warm = arm;
    warm.options["temperature"] = 2;
    EXPECT_EQ(test::run(warm.name, warm.options, c), test::run(arm.name, arm.options, halved))
        << arm.name;
  }
}

}  // namespace
}  // namespace rtfx
