// Tests of the beams of a batch: hashes, recombination, and the walk back to token sequences.
#include "algorithms/shared/beams/beam_hypotheses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/host_beam.h"

namespace rtfx {
namespace {

constexpr int64_t kBlank = 2000;

at::Tensor longs(std::initializer_list<int64_t> values) {
  return at::tensor(std::vector<int64_t>(values), at::kLong).unsqueeze(0);
}
at::Tensor floats(std::initializer_list<double> values) {
  return at::tensor(std::vector<double>(values), at::kFloat).unsqueeze(0);
}

BeamHypotheses beams_of(int64_t beam, AlignmentRule rule = AlignmentRule::rnnt,
                        int64_t multiplier = kHashMultiplier) {
  return {rule, 1, beam, 16, kBlank, at::kCPU, multiplier};
}

/// Appends one step to a single utterance, where each slot is its own parent.
void emit(BeamHypotheses& h, const at::Tensor& labels, const at::Tensor& durations = {}) {
  h.append(at::arange(h.beam, at::kLong).unsqueeze(0), labels, at::zeros({1, h.beam}), durations);
}

int64_t hash_of(const std::vector<int64_t>& text) {
  BeamHypotheses h = beams_of(1);
  for (const int64_t token : text) emit(h, longs({token}));
  return h.hash.item<int64_t>();
}

TEST(BeamHypotheses, HashesAreThoseOfTheSpecification) {
  EXPECT_EQ(hash_of({}), 0);
  EXPECT_EQ(hash_of({0}), 1);
  EXPECT_EQ(hash_of({5}), 6);
  EXPECT_EQ(hash_of({1023}), 1024);
  EXPECT_EQ(hash_of({5, 7}), 1291329195661654806);
  EXPECT_EQ(hash_of({7, 5}), -4427142430354310802);
  EXPECT_EQ(hash_of({1, 2, 3}), -2759284027258054307);
  EXPECT_EQ(hash_of({1, kBlank, 2, -1, kBlank, 3}), hash_of({1, 2, 3}));
}

TEST(BeamHypotheses, ATokenIsExpectedWhereTheHashSaysSo) {
  BeamHypotheses h = beams_of(2);
  emit(h, longs({5, kBlank}));
  const at::Tensor extended = h.extended_hash(longs({7, 5}).unsqueeze(0).expand({1, 2, 2}));
  EXPECT_EQ(extended[0][0][0].item<int64_t>(), hash_of({5, 7}));
  EXPECT_EQ(extended[0][1][1].item<int64_t>(), hash_of({5}));
  // The text of slot 0 is the empty text of slot 1 and one token.
  EXPECT_TRUE(at::equal(h.extends(), at::tensor({0, 1, 0, 0}).view({1, 2, 2}).to(at::kBool)));
}

TEST(BeamHypotheses, TheBestOfEqualTextsGetsTheSum) {
  BeamHypotheses h = beams_of(4);
  emit(h, longs({3, 4, 3, 3}));
  h.scores.copy_(floats({-1.5, -2, -1, -3}));
  h.merge();
  EXPECT_NEAR(h.scores[0][2].item<double>(), -0.4450, 1e-4);
  EXPECT_EQ(h.scores[0][1].item<float>(), -2.0f);
  EXPECT_EQ(h.scores[0][0].item<float>(), kLogZero);
  EXPECT_EQ(h.scores[0][3].item<float>(), kLogZero);
  h.scores.copy_(floats({-1.5, -2, -1, -3}));
  h.merge(/*sum=*/false);
  EXPECT_EQ(h.scores[0][2].item<float>(), -1.0f);
}

/// Results of TDT that jumped different distances beyond the end are merged in the order in which
/// they were found.
TEST(HostBeam, TheLikeliestOfEqualTextsStaysAndGetsTheSum) {
  HostBeam beam = {{3, -6, 5, {4}, {1}}, {8, -2, 5, {0}, {4}}, {3, -1, 6, {2}, {4}}};
  merge_equal(beam, /*same_time=*/true);
  EXPECT_EQ(beam.size(), 3);
  merge_equal(beam, /*same_time=*/false);
  ASSERT_EQ(beam.size(), 2);
  EXPECT_EQ(beam[0].text, 3);
  EXPECT_EQ(beam[0].frames, (std::vector<int32_t>{2}));
  EXPECT_EQ(beam[0].durations, (std::vector<int32_t>{4}));
  EXPECT_EQ(beam[0].score, log_add(-6, -1));
  EXPECT_EQ(beam[1].text, 8);
}

TEST(BeamHypotheses, TheLowestSlotOfEqualsStays) {
  BeamHypotheses h = beams_of(3);
  emit(h, longs({3, 3, 3}));
  h.scores.copy_(floats({-4, -2, -2}));
  h.merge();
  EXPECT_TRUE(at::isfinite(h.scores[0][1]).item<bool>());
  EXPECT_EQ(h.scores[0][2].item<float>(), kLogZero);
}

TEST(BeamHypotheses, EmptySlotsStayEmpty) {
  BeamHypotheses h = beams_of(3);
  EXPECT_TRUE(at::equal(h.alive(), at::tensor({1, 0, 0}).view({1, 3}).to(at::kBool)));
  h.scores.fill_(kLogZero);
  h.merge();
  EXPECT_TRUE((h.scores == kLogZero).all().item<bool>());
}

TEST(BeamHypotheses, TdtTextsAtDifferentFramesAreNotEqual) {
  BeamHypotheses h = beams_of(3, AlignmentRule::tdt);
  emit(h, longs({3, 3, 3}), longs({1, 2, 1}));
  EXPECT_TRUE(at::equal(h.run, longs({0, 0, 0})));
  h.scores.copy_(floats({-1, -1, -1}));
  h.merge();
  EXPECT_TRUE(at::equal(h.alive(), at::tensor({1, 1, 0}).view({1, 3}).to(at::kBool)));
  h.merge_at(at::minimum(h.time, longs({1, 1, 1})));
  EXPECT_TRUE(at::equal(h.alive(), at::tensor({1, 0, 0}).view({1, 3}).to(at::kBool)));
  EXPECT_NEAR(h.scores[0][0].item<double>(), -1 + std::log(3.0), 1e-6);
}

TEST(BeamHypotheses, LengthAndLastTokenCatchMostCollisions) {
  BeamHypotheses h = beams_of(4, AlignmentRule::rnnt, /*multiplier=*/0);  // hash: last token + 1
  emit(h, longs({5, 6, kBlank, 6}));
  emit(h, longs({7, 7, 7, kBlank}));
  EXPECT_TRUE(at::equal(h.hash, longs({8, 8, 8, 7})));
  h.merge();
  // The hash cannot tell [5 7] from [6 7]. [7] is shorter, and [6] ends with another token.
  EXPECT_TRUE(at::equal(h.alive(), at::tensor({1, 0, 1, 1}).view({1, 4}).to(at::kBool)));
  const auto rows = h.result(4, /*score_norm=*/false, at::zeros({1}, at::kBool)).to_host();
  EXPECT_EQ(rows[0].nbest[0].tokens, (std::vector<int32_t>{5, 7}));
}

TEST(BeamHypotheses, RnntPathsAreFollowedThroughTheirParents) {
  BeamHypotheses h = beams_of(2);
  const at::Tensor zeros = at::zeros({1, 2});
  h.append(longs({0, 0}), longs({4, kBlank}), zeros);  // 4          | -
  h.append(longs({1, 0}), longs({6, kBlank}), zeros);  // - 6        | 4 -
  h.append(longs({1, 1}), longs({8, kBlank}), zeros);  // 4 - 8      | 4 - -
  h.append(longs({0, 1}), longs({kBlank, -1}), floats({-3, -1.2}));
  EXPECT_TRUE(at::equal(h.time, longs({2, 2})));
  const auto rows = h.result(2, /*score_norm=*/false, at::zeros({1}, at::kBool)).to_host();
  ASSERT_EQ(rows[0].nbest.size(), 2);
  EXPECT_EQ(rows[0].tokens, (std::vector<int32_t>{4}));
  EXPECT_EQ(rows[0].frames, (std::vector<int32_t>{0}));
  EXPECT_EQ(rows[0].nbest[1].tokens, (std::vector<int32_t>{4, 8}));
  EXPECT_EQ(rows[0].nbest[1].frames, (std::vector<int32_t>{0, 1}));
  // -3 / 3 is better than -1.2 / 2.
  EXPECT_EQ(h.result(1, true, at::zeros({1}, at::kBool)).to_host()[0].tokens.size(), 1);
  h.scores.copy_(floats({-1.5, -1.2}));
  EXPECT_EQ(h.result(1, true, at::zeros({1}, at::kBool)).to_host()[0].tokens.size(), 2);
}

TEST(BeamHypotheses, MonotonicLabelsMoveOneFrameEach) {
  BeamHypotheses h = beams_of(1, AlignmentRule::monotonic);
  emit(h, longs({4}));
  emit(h, longs({4}));
  emit(h, longs({kBlank}));
  emit(h, longs({6}));
  emit(h, longs({-1}));
  EXPECT_EQ(h.time.item<int64_t>(), 4);
  EXPECT_EQ(h.run.item<int64_t>(), 0);
  const Hypothesis row = h.result(1, true, at::zeros({1}, at::kBool)).to_host()[0];
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{4, 4, 6}));
  EXPECT_EQ(row.frames, (std::vector<int32_t>{0, 1, 3}));
  EXPECT_TRUE(row.durations.empty());
}

TEST(BeamHypotheses, TdtTokensStartWhereTheyAreEmitted) {
  BeamHypotheses h = beams_of(1, AlignmentRule::tdt);
  emit(h, longs({4}), longs({0}));
  EXPECT_EQ(h.run.item<int64_t>(), 1);
  emit(h, longs({5}), longs({3}));
  emit(h, longs({kBlank}), longs({2}));
  emit(h, longs({6}), longs({4}));
  emit(h, longs({-1}), longs({9}));
  EXPECT_EQ(h.time.item<int64_t>(), 9);
  const Hypothesis row = h.result(1, true, at::zeros({1}, at::kBool)).to_host()[0];
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ(row.frames, (std::vector<int32_t>{0, 0, 5}));
  EXPECT_EQ(row.durations, (std::vector<int32_t>{0, 3, 4}));
}

TEST(BeamHypotheses, CtcLabelsCollapse) {
  BeamHypotheses h = beams_of(1, AlignmentRule::ctc);
  for (const int64_t label : {7, 7, int(kBlank), 7, 8, 8, -1}) emit(h, longs({label}));
  EXPECT_EQ(h.hash.item<int64_t>(), hash_of({7, 7, 8}));
  const Hypothesis row = h.result(1, true, at::zeros({1}, at::kBool)).to_host()[0];
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{7, 7, 8}));
  EXPECT_EQ(row.frames, (std::vector<int32_t>{0, 3, 4}));
}

}  // namespace
}  // namespace rtfx
