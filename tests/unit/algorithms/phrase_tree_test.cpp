// Tests phrase trees against their definition on whole texts, against NeMo's tables, and in tables
// that several trees share.
#include "algorithms/shared/biasing/phrase_tree.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "algorithms/shared/biasing/device_bias.h"
#include "tests/support/boost_cases.h"

namespace rtfx {
namespace {

using namespace test;

PhraseTree tree_of(const PlainBoost& boost) {
  std::vector<PhraseTokens> phrases;
  for (const auto& [tokens, weight] : boost.phrases) phrases.push_back({tokens, weight});
  return make_phrase_tree(phrases, {boost.scaling, boost.unknown, boost.scale, /*nemo=*/false});
}

std::shared_ptr<const CompiledBias> bias_of(const PlainBoost& boost) {
  auto bias = std::make_shared<CompiledBias>();
  bias->tree = tree_of(boost);
  return bias;
}

/// A walk along a text through the tree of one row.
class Walk {
 public:
  explicit Walk(const DeviceBias& rows, int64_t row = 0) : rows_(rows), row_(row) {
    states_ = rows.initial_states();
  }
  /// Returns the scores [V] of the current state.
  at::Tensor scores() const { return rows_.scores(states_)[row_]; }
  double end() const { return rows_.final_scores(states_)[row_].item<double>(); }
  void take(int32_t token) {
    const at::Tensor labels = at::full({states_.size(0)}, -1, at::kLong);
    labels[row_].fill_(token);
    states_ = rows_.next_states(states_, labels);
  }

 private:
  const DeviceBias& rows_;
  int64_t row_;
  at::Tensor states_;
};

TEST(PhraseTree, EqualsTheDefinitionOnRandomTexts) {
  std::mt19937 random(71);
  int longest = 0;
  for (int trial = 0; trial < 120 && !HasFailure(); ++trial) {
    const int64_t tokens = 1 + trial % 3, vocabulary = tokens + 1;
    const PlainBoost boost = random_boost(random, tokens, 6, trial % 10 == 0 ? 14 : 5);
    DeviceBiasTables tables(vocabulary, at::kCPU);
    tables.load({bias_of(boost)});
    const DeviceBias rows = tables.rows(1);
    for (int text = 0; text < 3; ++text) {
      Walk walk(rows);
      PlainBoost::Tokens before;
      for (int i = 0; i < 25; ++i) {
        const at::Tensor scores = walk.scores();
        for (int32_t k = 0; k < vocabulary; ++k) {
          ASSERT_NEAR(scores[k].item<double>(), boost.score(before, k), 1e-4)
              << boost.option() << " " << testing::PrintToString(before) << " " << k;
        }
        ASSERT_NEAR(walk.end(), boost.end(before), 1e-4)
            << boost.option() << " " << testing::PrintToString(before);
        longest = std::max(longest, static_cast<int>(boost.state(before).size()));
        // Token 0 comes more often than others, so that the walk reaches states far from the root.
        const auto next = static_cast<int32_t>(
            random() % 3 > 0 ? 0 : random() % static_cast<uint64_t>(vocabulary));
        walk.take(next);
        before.push_back(next);
      }
    }
  }
  EXPECT_GT(longest, 9);  // further than a language model's longest context
}

double total(const PlainBoost& boost, const PlainBoost::Tokens& text) {
  DeviceBiasTables tables(8, at::kCPU);
  tables.load({bias_of(boost)});
  const DeviceBias rows = tables.rows(1);
  Walk walk(rows);
  double sum = 0;
  for (const int32_t token : text) {
    sum += walk.scores()[token].item<double>();
    walk.take(token);
  }
  return sum + walk.end();
}

TEST(PhraseTree, WhatIsNotCompletedIsTakenBack) {
  // The phrases 0 1, 0 1 2 3, 2 4 and 1 2 have weight 1, and depth scaling 1.
  const PlainBoost boost{{{{0, 1}, 1}, {{0, 1, 2, 3}, 1}, {{2, 4}, 1}, {{1, 2}, 1}}, 1};
  const double two = 2 + std::log(2.0), four = 4 + std::log(2.0 * 3 * 4);
  EXPECT_NEAR(total(boost, {5, 6, 7}), 0, 1e-5);
  EXPECT_NEAR(total(boost, {0, 5, 2, 5, 0}), 0, 1e-5);  // begun, but not completed
  EXPECT_NEAR(total(boost, {0, 1, 5}), two, 1e-5);
  EXPECT_NEAR(total(boost, {0, 1, 2, 5}), two, 1e-5);         // a longer one breaks off
  EXPECT_NEAR(total(boost, {0, 1, 2, 3, 5}), four, 1e-5);     // phrases inside it count no more
  EXPECT_NEAR(total(boost, {0, 1, 2, 4, 5}), 2 * two, 1e-5);  // over a failure link
  EXPECT_NEAR(total(boost, {1, 2, 5, 1, 2}), 2 * two, 1e-5);
}

TEST(PhraseTree, APhraseInsideOneThatBreaksOffStays) {
  // "bc" is complete before "abcdz" breaks off, where no failure link leads to "bc".
  const PlainBoost boost{{{{0, 1, 2, 3, 6}, 1}, {{1, 2}, 1}}, 1};
  EXPECT_NEAR(total(boost, {0, 1, 2, 3, 5}), 2 + std::log(2.0), 1e-5);
}

/// WhatIsNotCompletedIsTakenBack has a third phrase that holds both.
TEST(PhraseTree, OverlappingPhrasesBothStay) {
  const PlainBoost boost{{{{0, 1}, 1}, {{1, 2}, 1}}, 1};
  EXPECT_NEAR(total(boost, {0, 1, 2, 5}), 2 * (2 + std::log(2.0)), 1e-5);
}

TEST(PhraseTree, TheLargestWeightCountsForEqualPhrasesAndSharedBeginnings) {
  const PlainBoost boost{{{{0, 1}, 2}, {{0, 1}, 0.5}, {{0, 2}, 3}}, 1};
  // Token 0 scores 3, the largest weight of the phrases that begin with it. Token 1 scores 2 +
  // ln 2.
  EXPECT_NEAR(total(boost, {0, 1, 5}), 3 + 2 + std::log(2.0), 1e-5);
}

TEST(DeviceBiasTables, RowsHaveTheirOwnTrees) {
  std::mt19937 random(72);
  constexpr int64_t kVocabulary = 4;
  DeviceBiasTables tables(kVocabulary, at::kCPU);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<const CompiledBias>> biases;
    std::vector<PlainBoost> plain;
    for (int row = 0; row < 5; ++row) {
      plain.push_back(random_boost(random, kVocabulary, 5, 4));
      biases.push_back(row % 3 == 2 ? nullptr : bias_of(plain.back()));
    }
    biases.push_back(biases.front());
    plain.push_back(plain.front());
    tables.load(biases);
    const DeviceBias rows = tables.rows(6);
    for (int64_t row = 0; row < 6; ++row) {
      Walk walk(rows, row);
      PlainBoost::Tokens before;
      for (int i = 0; i < 8; ++i) {
        const auto k = static_cast<int32_t>(random() % kVocabulary);
        const double expected =
            biases[static_cast<size_t>(row)] ? plain[static_cast<size_t>(row)].score(before, k) : 0;
        ASSERT_NEAR(walk.scores()[k].item<double>(), expected, 1e-4);
        walk.take(k);
        before.push_back(k);
      }
    }
  }
}

TEST(DeviceBiasTables, ThereIsRoomForWhatRowsHaveNow) {
  // Trees that no row has any more give way. Tables grow if the trees of one batch do not fit.
  std::mt19937 random(73);
  constexpr int64_t kVocabulary = 100;
  DeviceBiasTables tables(kVocabulary, at::kCPU);
  int moved = 0;
  for (int round = 0; round < 12; ++round) {
    PlainBoost boost = random_boost(random, kVocabulary, 2, 3);
    for (int32_t i = 0; i < (round == 8 ? 3000 : 400); ++i)
      boost.phrases.push_back({{i % 100, (i / 100) % 100, i / 7 % 100}, 1});
    moved += tables.load({nullptr, bias_of(boost)});
    const DeviceBias rows = tables.rows(2);
    const at::Tensor scores = rows.scores(rows.initial_states());
    EXPECT_TRUE(scores[0].eq(0).all().item<bool>());
    for (int32_t k = 0; k < kVocabulary; ++k)
      ASSERT_NEAR(scores[1][k].item<double>(), boost.score({}, k), 1e-4);
  }
  EXPECT_EQ(moved, 2);
}

TEST(DeviceBiasTables, RootsBehindTheBatchStayWithinSmallerTables) {
  // A recorded search reads all its rows, also those behind the batch. `many` has more states, so
  // the tables shrink with `dense`. `dense` has more arcs, because those of the state behind the
  // first token come again behind the third.
  constexpr int64_t kVocabulary = 100;
  PlainBoost many, dense;
  for (int32_t i = 0; i < 9000; ++i)
    many.phrases.push_back({{i % 10, 10 + i / 10 % 30, 40 + i / 300}, 1});
  for (int32_t i = 0; i < 495; ++i) dense.phrases.push_back({{0, 1 + i % 99, 1 + i / 99, 0, 1}, 1});
  DeviceBiasTables tables(kVocabulary, at::kCPU);
  tables.load({bias_of(many), bias_of(many)});
  const auto states = [&] { return tables.rows(2).models->arrays().backoff_to.size(0); };
  const int64_t before = states();
  EXPECT_TRUE(tables.load({bias_of(dense)}));
  ASSERT_LT(states(), before);
  const DeviceBias rows = tables.rows(2);
  EXPECT_LT(rows.roots.max().item<int64_t>(), states());
  EXPECT_EQ(rows.scores(rows.initial_states()).size(0), 2);
}

TEST(DeviceBiasTables, AFailedLoadIsNotTakenForTheOneBefore) {
  constexpr int64_t kVocabulary = 8;
  const auto with_mask = [](const PlainBoost& boost, int64_t tokens) {
    auto bias = std::make_shared<CompiledBias>(*bias_of(boost));
    bias->forbidden = at::zeros({tokens}, at::kBool);
    return bias;
  };
  const auto good = with_mask({{{{0, 1}, 1}}, 1}, kVocabulary),
             too_long = with_mask({{{{2, 3}, 1}}, 1}, kVocabulary + 1);
  DeviceBiasTables tables(kVocabulary, at::kCPU);
  const auto scores = [&] {
    const DeviceBias rows = tables.rows(1);
    return rows.scores(rows.initial_states());
  };
  tables.load({good});
  const at::Tensor before = scores();
  EXPECT_THROW(tables.load({too_long}), c10::Error);  // its tree is loaded, but not its mask
  tables.load({good});
  EXPECT_TRUE(at::equal(scores(), before));
}

TEST(PhraseTree, EqualsNemosTables) {
  std::ifstream file("tests/golden/data/boosting.json");
  ASSERT_TRUE(file) << "run in the root of the repository";
  const nlohmann::json golden = nlohmann::json::parse(file);
  int cells = 0;
  for (const nlohmann::json& one : golden.at("trees")) {
    std::vector<PhraseTokens> phrases;
    for (const nlohmann::json& phrase : one.at("phrases")) {
      const double own = phrase.at("score");
      phrases.push_back(
          {phrase.at("tokens"), own == 0 ? one.at("context_score").get<double>() : own});
    }
    auto bias = std::make_shared<CompiledBias>();
    bias->tree =
        make_phrase_tree(phrases, {one.at("depth_scaling"), one.at("unk_score"), 1, /*nemo=*/true});
    const int64_t vocabulary = one.at("vocabulary");
    const std::vector<std::vector<float>> scores = one.at("scores");
    const std::vector<std::vector<int32_t>> next = one.at("next_states");
    ASSERT_EQ(bias->tree->states(), static_cast<int64_t>(scores.size()));
    DeviceBiasTables tables(vocabulary, at::kCPU);
    tables.load({bias});
    const DeviceBias rows = tables.rows(1);
    for (size_t state = 0; state < scores.size(); ++state) {
      const at::Tensor at_state = at::full({1}, static_cast<int64_t>(state), at::kInt);
      const at::Tensor found = rows.scores(at_state)[0];
      for (int64_t k = 0; k < vocabulary; ++k, ++cells) {
        const auto token = static_cast<size_t>(k);
        ASSERT_EQ(found[k].item<float>(), scores[state][token]) << "state " << state << ", " << k;
        ASSERT_EQ(rows.next_states(at_state, at::full({1}, k)).item<int32_t>(), next[state][token]);
      }
    }
  }
  EXPECT_GT(cells, 2000);
}

}  // namespace
}  // namespace rtfx
