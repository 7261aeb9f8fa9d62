#include "harness/scoring/exactness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace rtfx {
namespace {

constexpr at::ScalarType kFp32 = at::kFloat;

Hypothesis hypothesis() {
  return {
      .tokens = {7, 8, 9}, .frames = {1, 4, 6}, .durations = {2, 2, 1}, .score = 10, .nan = false};
}

TEST(Exactness, BitwiseMeansScoreBitsToo) {
  Hypothesis other = hypothesis();
  EXPECT_EQ(compare(hypothesis(), other, true, Proof::none, kFp32).grade, Grade::bitwise);
  other.score = std::nextafter(other.score, 100.0F);
  EXPECT_EQ(compare(hypothesis(), other, true, Proof::none, kFp32).grade, Grade::exact);
}

TEST(Exactness, ScoreTooFarApartIsNotExact) {
  Hypothesis other = hypothesis();
  other.score = 10.002F;
  EXPECT_EQ(compare(hypothesis(), other, true, Proof::none, kFp32).grade, Grade::text);
  EXPECT_EQ(compare(hypothesis(), other, true, Proof::none, at::kBFloat16).grade, Grade::exact);
}

TEST(Exactness, EachTypeOfADecoderHasATolerance) {
  EXPECT_EQ(score_tolerance(at::kFloat), 1e-4);
  EXPECT_EQ(score_tolerance(at::kDouble), 1e-4);
  EXPECT_EQ(score_tolerance(at::kBFloat16), 0x1p-6);
  EXPECT_EQ(score_tolerance(at::kHalf), 0x1p-9);
  EXPECT_THROW(score_tolerance(at::kFloat8_e4m3fn), std::logic_error);
}

TEST(Exactness, ScoresOfDifferentKindsAreNotCompared) {
  Hypothesis other = hypothesis();
  other.score = -3;
  EXPECT_EQ(compare(hypothesis(), other, true, Proof::none, kFp32, false).grade, Grade::exact);
  other.frames[0] = 2;
  EXPECT_EQ(compare(hypothesis(), other, false, Proof::none, kFp32, false).grade, Grade::different);
}

TEST(Exactness, AnyFieldMakesADifference) {
  for (auto field : {&Hypothesis::tokens, &Hypothesis::frames, &Hypothesis::durations}) {
    Hypothesis other = hypothesis();
    ++(other.*field)[1];
    const Comparison c = compare(hypothesis(), other, false, Proof::none, kFp32);
    EXPECT_EQ(c.grade, Grade::different);
    EXPECT_EQ(c.token, 1U);
    EXPECT_EQ(compare(hypothesis(), other, true, Proof::none, kFp32).grade, Grade::text);
  }
}

TEST(Exactness, AReplayWithinRoundingExplainsOtherTokens) {
  Hypothesis other = hypothesis();
  other.tokens[2] = 5;
  const auto grade = [&](Proof proof) {
    return compare(hypothesis(), other, false, proof, at::kBFloat16).grade;
  };
  EXPECT_EQ(grade(Proof::within), Grade::rounding);
  EXPECT_EQ(grade(Proof::none), Grade::different);
  EXPECT_EQ(grade(Proof::failed), Grade::different);
}

TEST(Exactness, AFailedReplayIsDifferentEvenWhereBothAreEqual) {
  EXPECT_EQ(compare(hypothesis(), hypothesis(), true, Proof::failed, kFp32).grade,
            Grade::different);
  EXPECT_EQ(compare(hypothesis(), hypothesis(), true, Proof::within, kFp32).grade, Grade::bitwise);
}

TEST(Exactness, AShorterResultDiffersAtItsEnd) {
  Hypothesis other = hypothesis();
  for (auto field : {&Hypothesis::tokens, &Hypothesis::frames, &Hypothesis::durations})
    (other.*field).pop_back();
  EXPECT_EQ(compare(hypothesis(), other, false, Proof::none, kFp32).token, 2U);
}

TEST(ReplayTotals, AddsUpAndKeepsTheFirstBeyond) {
  ReplayTotals totals;
  Replayed within, beyond;
  within.add({"label", 3, 1, 2, 0.5, 1});
  beyond.add({"label", 4, 1, 2, 0, 1});
  beyond.add({"duration", 5, 1, 2, 3, 1});
  totals.add("a", within);
  totals.add("b", beyond);
  totals.add("c", beyond);
  EXPECT_EQ(totals.decisions, 5);
  EXPECT_EQ(totals.beyond, 2);
  EXPECT_EQ(totals.worst, 3);
  EXPECT_EQ(totals.utterance, "b");
  ASSERT_TRUE(totals.first);
  EXPECT_EQ(totals.first->kind, "duration");
  EXPECT_EQ(totals.first->frame, 5);
}

TEST(GradeCounts, CountsGradesAndKeepsTheFirstOfTheWorst) {
  GradeCounts graded;
  const auto add = [&](Grade grade, const char* id) {
    graded.add({grade, 0}, [&] {
      FirstDifference d;
      d.utterance = id;
      return d;
    });
  };
  add(Grade::exact, "a");
  EXPECT_FALSE(graded.first);
  add(Grade::text, "b");
  add(Grade::different, "c");
  add(Grade::different, "d");
  add(Grade::bitwise, "e");
  EXPECT_EQ(graded.worst, Grade::different);
  EXPECT_EQ(graded.counts, (std::vector<int64_t>{1, 1, 0, 1, 0, 2}));
  ASSERT_TRUE(graded.first);
  EXPECT_EQ(graded.first->utterance, "c");
}

TEST(DifferingWords, ShowsTwoWordsEachWay) {
  using Words = std::vector<std::string>;
  const Words a = {"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(differing_words(a, Words{"a", "b", "c", "x", "e", "f", "g"}),
            std::pair(std::string("b c d e f"), std::string("b c x e f")));
  EXPECT_EQ(differing_words(a, Words{}), std::pair(std::string("a b c"), std::string()));
}

TEST(HypothesesHash, SeesEveryField) {
  const std::string hash = hash_hypotheses({"u"}, {hypothesis()});
  EXPECT_EQ(hash_hypotheses({"u"}, {hypothesis()}), hash);
  EXPECT_NE(hash_hypotheses({"v"}, {hypothesis()}), hash);
  for (auto field : {&Hypothesis::tokens, &Hypothesis::frames, &Hypothesis::durations}) {
    Hypothesis other = hypothesis();
    ++(other.*field)[0];
    EXPECT_NE(hash_hypotheses({"u"}, {other}), hash);
  }
  Hypothesis zero = hypothesis(), negative = hypothesis();
  zero.score = 0.0F;
  negative.score = -0.0F;
  EXPECT_NE(hash_hypotheses({"u"}, {zero}), hash_hypotheses({"u"}, {negative}));
}

}  // namespace
}  // namespace rtfx
