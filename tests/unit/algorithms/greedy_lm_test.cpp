// Tests greedy searches with a language model against the definition, on random tables and models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class GreedyLanguageModel : public TempFolder {};

TEST_F(GreedyLanguageModel, TransducersEqualThePlainSearch) {
  std::mt19937 random(13);
  int different = 0, tokens = 0;
  for (int trial = 0; trial < 32 && !HasFailure(); ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const int64_t max_symbols = std::vector<int64_t>{1, 2, 3, 10}[static_cast<size_t>(trial % 4)];
    const LmCase lm =
        random_lm(random, c.model.vocabulary, path("lm" + std::to_string(trial) + ".arpa"));
    const auto bonus = [&](const auto& t, int32_t k) { return lm.bonus(t, k); };
    std::vector<Hypothesis> expected;
    for (const Table& row : c.rows) {
      expected.push_back(oracle(c.model, row, max_symbols, bonus));
      tokens += static_cast<int>(expected.back().tokens.size());
      different += expected.back().tokens != oracle(c.model, row, max_symbols).tokens;
    }
    for (Arm arm : lm_arms()) {
      arm.options.update({{"max_symbols", max_symbols}, {"lm", lm.option}});
      const auto found = run(arm.name, arm.options, c);
      for (size_t b = 0; b < expected.size(); ++b) {
        expect_same(found[b], expected[b],
                    arm.name + arm.options.dump() + " trial " + std::to_string(trial));
      }
    }
  }
  EXPECT_GT(different, 20);  // the language models do change results
  EXPECT_GT(tokens, 200);
}

TEST_F(GreedyLanguageModel, LogProbabilitiesAreScoresToo) {
  std::mt19937 random(14);
  const Case c = random_case(random, false, false);
  const LmCase lm = random_lm(random, c.model.vocabulary, path("lm.arpa"));
  const nlohmann::json options = {{"lm", lm.option}, {"score_kind", "logprob"}};
  const auto found = run("label_looping", options, c);
  EXPECT_EQ(found, run("frame_looping", options, c));
  for (size_t b = 0; b < found.size(); ++b) {
    double expected = 0;
    std::vector<int32_t> before;
    for (size_t u = 0; u < found[b].tokens.size(); ++u) {
      const auto frame = static_cast<size_t>(found[b].frames[u]);
      const auto z = logits(c.model, c.rows[b][frame], before);
      double sum = 0;
      for (const double x : z) sum += std::exp(x);
      const int32_t token = found[b].tokens[u];
      expected += z[static_cast<size_t>(token)] - std::log(sum) + lm.bonus(before, token);
      before.push_back(token);
    }
    EXPECT_NEAR(found[b].score, expected, 1e-3);
  }
}

TEST_F(GreedyLanguageModel, CtcEqualsThePlainSearch) {
  std::mt19937 random(15);
  int different = 0;
  for (int trial = 0; trial < 60 && !HasFailure(); ++trial) {
    const int64_t vocabulary = 2 + trial % 4;
    const LmCase lm = random_lm(random, vocabulary, path("lm" + std::to_string(trial) + ".arpa"));
    std::vector<Table> rows;
    for (int b = 0; b < 4; ++b)
      rows.push_back(random_table(random, static_cast<int64_t>(random() % 14), vocabulary + 1));
    const EncodedBatch batch = batch_of(rows, vocabulary + 1);
    const auto search = [&](const nlohmann::json& options) {
      const auto decoder = make_decoder("ctc_greedy", options, "");
      decoder->prepare(identity_model(vocabulary), {});
      return decoder->decode(batch).to_host();
    };
    const auto found = search({{"lm", lm.option}}), without = search({});
    for (size_t b = 0; b < rows.size(); ++b) {
      expect_same(found[b], ctc_oracle(rows[b], lm), "trial " + std::to_string(trial));
      different += found[b].tokens != without[b].tokens;
    }
  }
  EXPECT_GT(different, 60);
}

TEST_F(GreedyLanguageModel, WeightZeroIsNoLanguageModel) {
  std::mt19937 random(16);
  for (int trial = 0; trial < 8; ++trial) {
    const Case c = random_case(random, trial % 2 == 0, true);
    LmCase lm = random_lm(random, c.model.vocabulary, path("lm.arpa"));
    lm.option["alpha"] = 0;
    for (const char* name : {"frame_looping", "label_looping"})
      EXPECT_EQ(run(name, {{"lm", lm.option}}, c), run(name, {}, c));
    // A language model of weight 0 changes no result, so the decoder stays exact.
    EXPECT_EQ(make_decoder("label_looping", {{"lm", lm.option}}, "")->describe().exactness,
              Description::Exactness::exact);
  }
}

TEST_F(GreedyLanguageModel, NeedsTokensOfTheAcousticModel) {
  const auto file = write("lm.arpa", "\\data\\\nngram 1=1\nngram 2=0\n\\1-grams:\n-1 9\n");
  const nlohmann::json options = {{"lm", {{"path", file.string()}}}};
  const auto decoder = make_decoder("ctc_greedy", options, "");
  EXPECT_HAS(user_error([&] { decoder->prepare(identity_model(5), {}); }),
             "lm.arpa:5: '9' is token 9, but the acoustic model has 5 tokens");
}

TEST_F(GreedyLanguageModel, GraphsAreForTheLoopOfCtc) {
  std::mt19937 random(17);
  LmCase lm = random_lm(random, 3, path("lm.arpa"));
  lm.option["alpha"] = 0;
  const auto problem = [](nlohmann::json options) {
    options["loop"] = "graph";
    return user_error(
        [&] { make_decoder("ctc_greedy", options, "")->prepare(identity_model(3), {}); });
  };
  EXPECT_HAS(problem({}), "no loop to record without a language model");
  EXPECT_HAS(problem({{"lm", lm.option}}), R"("loop": "graph" needs a GPU)");
}

TEST(CtcGreedy, AnInfiniteLogitMarksItsRow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::Tensor logits = at::zeros({3, 4, 3});
  logits[0][3][1] = kInfinity;  // behind the row's end
  logits[1][2][0] = kInfinity;
  logits[2][1].fill_(-kInfinity);
  const auto found = CtcGreedy::collapse(logits, at::tensor({3, 4, 4}, at::kLong)).to_host();
  EXPECT_FALSE(found[0].nan);
  EXPECT_TRUE(found[1].nan && found[2].nan);
}

}  // namespace
}  // namespace rtfx
