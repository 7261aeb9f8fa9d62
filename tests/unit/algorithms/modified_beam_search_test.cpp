// Tests modified_beam_search against icefall's rule in plain loops over texts, and against sums
// over all alignments.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/boost_cases.h"
#include "tests/support/monotonic_cases.h"
#include "tests/support/plain_fusion.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

constexpr char kName[] = "modified_beam_search";

/// The parameter says whether the model is TDT.
class ModifiedBeamSearchTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr int64_t kVocabulary = 8;

  /// Runs the search by operators and by fused kernels, and compares both with the plain one.
  void expect_icefall(std::mt19937& random, const nlohmann::json& fusion, bool early,
                      const std::function<NextOf(const NextOf&)>& fuse,
                      const std::function<double(const Text&)>& end = {}) {
    const BeamCase c =
        random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {5, 0, 9, 1, 7, 2});
    for (const size_t beam : {1, 2, 4, 7}) {
      for (const char* kernels : {"operators", "fused"}) {
        nlohmann::json options = {
            {"beam_size", beam}, {"nbest", 8}, {"score_norm", beam != 4}, {"kernels", kernels}};
        options.update(fusion);
        const auto found =
            BoostedSearch(kName, options, build(c.model), batch_of(c.rows, c.model.columns()))();
        for (size_t b = 0; b < c.rows.size(); ++b) {
          const NextOf next = next_of(c.model, c.rows[b]), fused = fuse(next);
          auto expected =
              plain_search(c.model, c.rows[b].size(), beam, {early ? next : fused, fused}, early);
          if (end)
            for (Entry& entry : expected) entry.score += end(entry.text);
          expect_list(found[b], expected, beam != 4, options.dump() + " row " + std::to_string(b));
        }
      }
    }
  }
};

TEST_P(ModifiedBeamSearchTest, FollowsIcefall) {
  std::mt19937 random(GetParam() ? 3 : 5);
  for (int trial = 0; trial < 12 && !HasFailure(); ++trial)
    expect_icefall(random, nlohmann::json::object(), false,
                   [](const NextOf& next) { return next; });
}

TEST_P(ModifiedBeamSearchTest, FollowsIcefallWithALanguageModel) {
  const SmallLm lm(kVocabulary);
  std::mt19937 random(GetParam() ? 7 : 9);
  for (const bool full : {false, true}) {
    for (const bool early : {false, true}) {
      const PlainFusion fusion{full, early};
      expect_icefall(random, fusion.options(lm), early,
                     [&](const NextOf& next) { return fusion.fused(next, lm, kVocabulary); });
      if (HasFailure()) return;
    }
  }
}

TEST_P(ModifiedBeamSearchTest, FollowsIcefallWithPhrases) {
  std::mt19937 random(GetParam() ? 11 : 13);
  for (int trial = 0; trial < 4 && !HasFailure(); ++trial) {
    const PlainBoost boost = random_boost(random, kVocabulary, 3, 3);
    const auto fuse = [&](const NextOf& next) -> NextOf {
      return [&boost, next](size_t frame, const Text& text) {
        Next n = next(frame, text);
        for (int32_t k = 0; k < kVocabulary; ++k)
          n.labels[static_cast<size_t>(k)] += boost.score(text, k);
        return n;
      };
    };
    expect_icefall(random, {{"boost", boost.option()}}, false, fuse,
                   [&](const Text& text) { return boost.end(text); });
  }
}

TEST_P(ModifiedBeamSearchTest, SumsOverAllAlignmentsInABeamThatLosesNothing) {
  constexpr int64_t kBeam = 80;
  std::mt19937 random(GetParam() ? 15 : 17);
  for (int trial = 0; trial < 3 && !HasFailure(); ++trial) {
    const BeamCase c = random_beam_case(random, GetParam(), kBeam, 2, {3, 2});
    for (const char* kernels : {"operators", "fused"}) {
      const auto found =
          run(kName, {{"beam_size", kBeam}, {"nbest", kBeam}, {"kernels", kernels}}, c);
      for (size_t b = 0; b < c.rows.size(); ++b) {
        std::map<Text, double> totals;
        sum_alignments(next_of(c.model, c.rows[b]), c, c.rows[b].size(), 0, {}, 0, totals);
        EXPECT_EQ(totals.size(), b == 0 ? 15U : 7U);
        for (const auto& [text, score] : totals)
          EXPECT_NEAR(listed_score(found[b], text), score, 2e-5)
              << kernels << " trial " << trial << " text " << testing::PrintToString(text);
      }
    }
  }
}

TEST_P(ModifiedBeamSearchTest, ABeamOfOneIsGreedySearchOfOneTokenPerFrame) {
  std::mt19937 random(GetParam() ? 19 : 21);
  for (int trial = 0; trial < 20 && !HasFailure(); ++trial) {
    const BeamCase c = random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {5, 0, 9});
    const auto found = run(kName, {{"beam_size", 1}}, c);
    for (size_t b = 0; b < c.rows.size(); ++b) {
      Hypothesis greedy = oracle(c.model, c.rows[b], /*max_symbols=*/1);
      for (int32_t& duration : greedy.durations) duration = std::max(1, duration);
      EXPECT_EQ(found[b].tokens, greedy.tokens) << trial;
      EXPECT_EQ(found[b].frames, greedy.frames) << trial;
      EXPECT_EQ(found[b].durations, greedy.durations) << trial;
    }
  }
}

TEST_P(ModifiedBeamSearchTest, HasNoMoreStepsThanFrames) {
  std::mt19937 random(23);
  const BeamCase c = random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {9, 4, 12});
  const auto decoder = make_decoder(kName, {{"beam_size", 4}}, "");
  decoder->prepare(build(c.model), {});
  const auto rows = decoder->decode(batch_of(c.rows, c.model.columns())).to_host();
  if (GetParam()) {
    EXPECT_LE(decoder->counters().at("outer_iters"), 12);
  } else {
    EXPECT_EQ(decoder->counters().at("outer_iters"), 12);
  }
  for (size_t b = 0; b < rows.size(); ++b)
    EXPECT_EQ(std::adjacent_find(rows[b].frames.begin(), rows[b].frames.end()),
              rows[b].frames.end())
        << "row " << b << " has two tokens at a frame";
}

INSTANTIATE_TEST_SUITE_P(Heads, ModifiedBeamSearchTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tdt" : "Rnnt"; });

}  // namespace
}  // namespace rtfx
