// Tests that texts as plain arrays give the results of the tree and its hashes.
#include "algorithms/shared/beams/flat_texts.h"

#include <gtest/gtest.h>

#include "algorithms/shared/beams/beam_hypotheses.h"
#include "base/error.h"
#include "tests/support/lstm_cases.h"

namespace rtfx {
namespace {

constexpr int64_t kBlank = 2000;

/// Returns three hypotheses: 5 7, 6 7, and 5 7 with a blank between. The hash is that of the last
/// token only, so all three collide.
BeamHypotheses with_colliding_hashes(BeamHypotheses::Comparison comparison) {
  BeamHypotheses h(AlignmentRule::rnnt, 1, 3, 8, kBlank, at::kCPU, /*hash_multiplier=*/0);
  h.use_flat_texts(comparison);
  const at::Tensor own = at::arange(3, at::kLong).unsqueeze(0);
  for (const auto& labels : {std::vector<int64_t>{5, 6, 5}, {7, 7, kBlank}, {-1, -1, 7}})
    h.append(own, at::tensor(labels, at::kLong).unsqueeze(0), at::zeros({1, 3}));
  return h;
}

std::vector<bool> alive(const BeamHypotheses& h) {
  std::vector<bool> slots;
  for (int64_t k = 0; k < h.beam; ++k) slots.push_back(h.alive()[0][k].item<bool>());
  return slots;
}

TEST(FlatTexts, TokensTellApartWhatHashesMergeWrongly) {
  BeamHypotheses by_hash = with_colliding_hashes({});
  by_hash.merge();
  EXPECT_EQ(alive(by_hash), (std::vector<bool>{true, false, false}));
  BeamHypotheses by_tokens = with_colliding_hashes({.by_tokens = true});
  by_tokens.merge();
  EXPECT_EQ(alive(by_tokens), (std::vector<bool>{true, true, false}));
}

TEST(FlatTexts, CountsCollisions) {
  BeamHypotheses h = with_colliding_hashes({.counted = true});
  h.merge();
  // Both texts 5 7 collide with 6 7. The pair of equal texts is no collision.
  FlatTexts::Counts counts = h.texts->counts();
  EXPECT_EQ(counts.pairs, 3);
  EXPECT_EQ(counts.collisions, 2);
  EXPECT_EQ(counts.wrong_merges, 2);
  h.merge();  // one hypothesis is left
  EXPECT_EQ(h.texts->counts().pairs, 3);
}

TEST(FlatTexts, EqualTheTreeInASearch) {
  std::mt19937 random(7);
  size_t tokens = 0;
  for (const bool tdt : {false, true}) {
    const auto model = test::lstm_model(1, tdt, at::kCPU);
    nlohmann::json options = {{"beam_size", 4}, {"nbest", 4}};
    const auto tree = test::prepared("alsd_pp", options, model);
    options["storage"] = "flat";
    options["count_collisions"] = true;
    const auto flat = test::prepared("alsd_pp", options, model);
    options["merge_by"] = "tokens";
    const auto by_tokens = test::prepared("alsd_pp", options, model);
    for (const int64_t rows : {1, 5}) {
      const EncodedBatch batch = test::random_batch(random, rows, 20, model->config.encoder.width);
      const auto expected = tree->decode(batch).to_host();
      EXPECT_EQ(flat->decode(batch).to_host(), expected);
      EXPECT_EQ(by_tokens->decode(batch).to_host(), expected);
      for (const Hypothesis& h : expected) tokens += h.tokens.size();
      const Counters counts = flat->counters();
      EXPECT_GT(counts.at("merge_pairs"), 20 * rows);
      EXPECT_EQ(counts.at("hash_collisions"), 0);
      EXPECT_EQ(counts.at("wrong_merges"), 0);
      EXPECT_FALSE(tree->counters().contains("merge_pairs"));
    }
  }
  EXPECT_GT(tokens, 50U);
}

TEST(FlatTexts, RefusesWhatDoesNotGoTogether) {
  const auto model = test::lstm_model(1, false, at::kCPU);
  for (const nlohmann::json& options :
       {nlohmann::json{{"merge_by", "tokens"}}, nlohmann::json{{"count_collisions", true}},
        nlohmann::json{{"storage", "flat"}, {"window", 2}},
        nlohmann::json{{"storage", "flat"}, {"kernels", "fused"}}})
    EXPECT_THROW(test::prepared("alsd_pp", options, model), UserError) << options;
  const auto flat = test::prepared("alsd_pp", {{"storage", "flat"}}, model);
  EXPECT_THROW(flat->streams({2, 10}), UserError);
  EXPECT_NE(test::prepared("alsd_pp", nlohmann::json::object(), model)->streams({2, 10}), nullptr);
}

}  // namespace
}  // namespace rtfx
