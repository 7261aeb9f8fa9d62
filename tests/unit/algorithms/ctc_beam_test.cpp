// Tests CTC beam search against the sum over all label sequences, and against greedy search.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "algorithms/gpu/host_read.h"
#include "base/error.h"
#include "tests/support/beam_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

std::vector<Hypothesis> decode(const std::string& name, const nlohmann::json& options,
                               const std::vector<Table>& rows, int64_t vocabulary) {
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(identity_model(vocabulary), {});
  return decoder->decode(batch_of(rows, vocabulary + 1)).to_host();
}

/// Returns rows of random logits, where tokens from `tokens` on are impossible.
std::vector<Table> random_rows(std::mt19937& random, int64_t vocabulary, int64_t tokens,
                               const std::vector<int64_t>& frames) {
  return random_beam_case(random, false, vocabulary, tokens, frames).rows;
}

struct Sums {
  std::map<Text, double> all, best;  // ln of the sum over label sequences, and of the largest
};

/// Returns the options of a step by operators, and of a fused step.
std::vector<nlohmann::json> forms(nlohmann::json options) {
  nlohmann::json fused = options;
  fused["kernels"] = "fused";
  return {std::move(options), std::move(fused)};
}

Sums enumerate(const Table& row, int32_t tokens) {
  const auto blank = static_cast<int32_t>(row.empty() ? 0 : row[0].size() - 1);
  std::vector<int32_t> choices;
  for (int32_t k = 0; k < tokens; ++k) choices.push_back(k);
  choices.push_back(blank);
  Sums sums;
  std::vector<size_t> path(row.size(), 0);
  for (;;) {
    Text text;
    double score = 0;
    int32_t last = -1;
    for (size_t t = 0; t < row.size(); ++t) {
      const int32_t label = choices[path[t]];
      score += log_softmax(row[t], 0, row[t].size())[static_cast<size_t>(label)];
      if (label != blank && label != last) text.push_back(label);
      last = label;
    }
    const auto add = [&](std::map<Text, double>& to, bool sum) {
      const auto [found, fresh] = to.emplace(text, score);
      if (!fresh)
        found->second = sum ? log_add(found->second, score) : std::max(found->second, score);
    };
    add(sums.all, true);
    add(sums.best, false);
    size_t t = 0;
    while (t < path.size() && ++path[t] == choices.size()) path[t++] = 0;
    if (t == path.size()) return sums;
  }
}

/// Returns the amount that fusion adds to the score of a whole text.
double lm_score(const SmallLm& lm, const Text& text, double alpha, double beta) {
  double total = alpha * lm.end(text);
  for (size_t u = 0; u < text.size(); ++u) {
    const Text before(text.begin(), text.begin() + static_cast<int64_t>(u));
    total += alpha * lm.score(before, text[u]) + beta;
  }
  return total;
}

TEST(CtcBeam, ScoresAreSumsOverAllLabelSequences) {
  // The beam holds as many hypotheses as a search of all label sequences has before it merges those
  // of the last frame. It holds no more, since time grows with the cube of the beam. It may be
  // larger than the vocabulary.
  struct Size {
    int64_t beam, vocabulary, tokens, frames;
  };
  const double alpha = 0.6, beta = 0.3;
  std::mt19937 random(59);
  for (const Size& size : std::vector<Size>{{40, 40, 2, 4}, {52, 3, 3, 3}}) {
    const SmallLm lm(size.vocabulary);
    for (int trial = 0; trial < 6; ++trial) {
      const auto rows = random_rows(random, size.vocabulary, size.tokens, {size.frames, 1, 0, 3});
      for (const bool sum : {true, false}) {
        for (const bool with_lm : {false, true}) {
          nlohmann::json options = {{"beam_size", size.beam},
                                    {"nbest", size.beam},
                                    {"beam_threshold", 1000},
                                    {"merge", sum ? "sum" : "max"}};
          if (with_lm) options["lm"] = {{"path", lm.path()}, {"alpha", alpha}, {"beta", beta}};
          for (const nlohmann::json& form : forms(options)) {
            const auto found = decode("ctc_beam", form, rows, size.vocabulary);
            for (size_t b = 0; b < rows.size(); ++b) {
              const Sums sums = enumerate(rows[b], static_cast<int32_t>(size.tokens));
              const auto& expected = sum ? sums.all : sums.best;
              EXPECT_EQ(found[b].nbest.size(), expected.size());
              for (const auto& [text, score] : expected) {
                const double total = score + (with_lm ? lm_score(lm, text, alpha, beta) : 0);
                EXPECT_NEAR(listed_score(found[b], text), total, 2e-5)
                    << form << " row " << b << " " << testing::PrintToString(text);
              }
            }
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(CtcBeam, ABeamOfOneIsGreedySearch) {
  std::mt19937 random(61);
  for (int trial = 0; trial < 30; ++trial) {
    auto rows = random_rows(random, 5, 5, {20, 0, 1, 7});
    for (Table& row : rows)
      for (auto& frame : row)
        for (double& x : frame) x = std::round(x);  // makes ties
    const auto greedy = decode("ctc_greedy", {}, rows, 5);
    for (const nlohmann::json& form : forms({{"beam_size", 1}})) {
      const auto beam = decode("ctc_beam", form, rows, 5);
      for (size_t b = 0; b < rows.size(); ++b) {
        EXPECT_EQ(beam[b].tokens, greedy[b].tokens);
        EXPECT_EQ(beam[b].frames, greedy[b].frames);
        EXPECT_NEAR(beam[b].score, greedy[b].score, 1e-4);
      }
    }
  }
}

TEST(CtcBeam, AnUtteranceDoesNotDependOnItsBatch) {
  std::mt19937 random(67);
  const SmallLm lm(9);
  for (const bool fused : {false, true}) {
    nlohmann::json options = {{"beam_size", 6}, {"nbest", 6}};
    if (fused) options["lm"] = {{"path", lm.path()}, {"alpha", 0.5}};
    const auto rows = random_rows(random, 9, 9, {12, 0, 3, 1, 30});
    const auto together = decode("ctc_beam", options, rows, 9);
    std::vector<Table> reversed(rows.rbegin(), rows.rend());
    auto backwards = decode("ctc_beam", options, reversed, 9);
    std::reverse(backwards.begin(), backwards.end());
    for (size_t b = 0; b < rows.size(); ++b) {
      expect_same(backwards[b], together[b], "backwards");
      expect_same(decode("ctc_beam", options, {rows[b]}, 9)[0], together[b], "alone");
    }
    EXPECT_TRUE(together[1].tokens.empty());
    EXPECT_TRUE(std::isfinite(together[1].score));
  }
}

TEST(CtcBeam, TheThresholdDropsWhatIsFarBehind) {
  std::mt19937 random(71);
  const auto rows = random_rows(random, 9, 9, {12});
  const nlohmann::json options = {{"beam_size", 6}, {"nbest", 6}};
  nlohmann::json narrow = options;
  narrow["beam_threshold"] = 1e-3;
  EXPECT_EQ(decode("ctc_beam", options, rows, 9)[0].nbest.size(), 6);
  const auto found = decode("ctc_beam", narrow, rows, 9);
  EXPECT_EQ(found[0].nbest.size(), 1);
  EXPECT_EQ(found[0].tokens, decode("ctc_greedy", {}, rows, 9)[0].tokens);
}

TEST(CtcBeam, EveryReadIsDeclared) {
  std::mt19937 random(79);
  const auto batch = batch_of(random_rows(random, 6, 6, {5, 0, 9}), 7);
  for (const nlohmann::json& form : forms({{"nbest", 4}})) {
    const auto decoder = make_decoder("ctc_beam", form, "");
    decoder->prepare(identity_model(6), {});
    EXPECT_NO_THROW(forbid_undeclared_syncs([&] { decoder->decode(batch); }));
    EXPECT_EQ(decoder->counters().at("host_reads"), form.contains("kernels") ? 0 : 9 + 1);
  }
}

/// A thread of the CPU runs the kernel's code, which must give the results of LibTorch's operators.
TEST(CtcBeam, FusedEqualsTheOperators) {
  constexpr int64_t kTokens = 20;
  const SmallLm lm(kTokens);
  std::mt19937 random(83);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 120; ++trial) {
    const int64_t beam = draw(1, kTokens);
    nlohmann::json options = {{"beam_size", beam},
                              {"nbest", beam},
                              {"beam_threshold", draw(0, 1) == 1 ? 20.0 : 4.0},
                              {"merge", draw(0, 1) == 1 ? "sum" : "max"},
                              {"temperature", draw(0, 1) == 1 ? 1.0 : 1.7}};
    if (trial % 3 > 0)
      options["lm"] = {{"path", lm.path()},
                       {"alpha", 0.3 * static_cast<double>(draw(0, 2))},
                       {"beta", 0.4 * static_cast<double>(draw(0, 1))}};
    auto rows = random_rows(random, kTokens, kTokens, {draw(0, 25), draw(0, 25), 0, draw(0, 9)});
    if (trial % 4 == 0)  // makes ties
      for (Table& row : rows)
        for (auto& frame : row)
          for (double& x : frame) x = std::round(x);
    const auto both = forms(options);
    const auto expected = decode("ctc_beam", both[0], rows, kTokens);
    const auto found = decode("ctc_beam", both[1], rows, kTokens);
    for (size_t b = 0; b < rows.size(); ++b)
      expect_same(found[b], expected[b], both[1].dump() + " row " + std::to_string(b));
    if (HasFailure()) return;
  }
}

TEST(CtcBeam, BadInput) {
  std::mt19937 random(73);
  const auto rows = random_rows(random, 4, 4, {3});
  EXPECT_THROW(decode("ctc_beam", {{"lm", {{"path", "x"}, {"pruning", "late"}}}}, rows, 4),
               UserError);
  auto nan = random_rows(random, 4, 4, {3, 3});
  nan[1][1][0] = std::nan("");
  for (const nlohmann::json& form : forms({{"beam_size", 4}})) {
    const auto found = decode("ctc_beam", form, nan, 4);
    EXPECT_FALSE(found[0].nan);
    EXPECT_TRUE(found[1].nan);
  }
}

}  // namespace
}  // namespace rtfx
