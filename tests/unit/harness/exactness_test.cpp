#include "harness/scoring/exactness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rtfx {
namespace {

const std::string kFp32 = "fp32";

Hypothesis hypothesis() {
  return {
      .tokens = {7, 8, 9}, .frames = {1, 4, 6}, .durations = {2, 2, 1}, .score = 10, .nan = false};
}

MarginOf margin_of(std::optional<double> value) {
  return [value](size_t) { return value; };
}

const MarginOf kWide = margin_of(1.0);

TEST(Exactness, BitwiseMeansScoreBitsToo) {
  Hypothesis other = hypothesis();
  EXPECT_EQ(compare(hypothesis(), other, true, kWide, kFp32).grade, Grade::bitwise);
  other.score = std::nextafter(other.score, 100.0F);
  EXPECT_EQ(compare(hypothesis(), other, true, kWide, kFp32).grade, Grade::exact);
}

TEST(Exactness, ScoreTooFarApartIsNotExact) {
  Hypothesis other = hypothesis();
  other.score = 10.002F;
  EXPECT_EQ(compare(hypothesis(), other, true, kWide, kFp32).grade, Grade::text);
  EXPECT_EQ(compare(hypothesis(), other, true, kWide, "bf16").grade, Grade::exact);
}

TEST(Exactness, ScoresOfDifferentKindsAreNotCompared) {
  Hypothesis other = hypothesis();
  other.score = -3;
  EXPECT_EQ(compare(hypothesis(), other, true, kWide, kFp32, false).grade, Grade::exact);
  other.frames[0] = 2;
  EXPECT_EQ(compare(hypothesis(), other, false, kWide, kFp32, false).grade, Grade::different);
}

TEST(Exactness, AnyFieldMakesADifference) {
  for (auto field : {&Hypothesis::tokens, &Hypothesis::frames, &Hypothesis::durations}) {
    Hypothesis other = hypothesis();
    ++(other.*field)[1];
    const Comparison c = compare(hypothesis(), other, false, kWide, kFp32);
    EXPECT_EQ(c.grade, Grade::different);
    EXPECT_EQ(c.token, 1U);
    EXPECT_EQ(c.margin, 1.0);
    EXPECT_EQ(compare(hypothesis(), other, true, kWide, kFp32).grade, Grade::text);
  }
}

TEST(Exactness, TieNeedsAMarginWithinTheSpacingOfTheDtype) {
  Hypothesis other = hypothesis();
  other.tokens[2] = 5;
  const auto grade = [&](std::optional<double> margin) {
    return compare(hypothesis(), other, false, margin_of(margin), kFp32).grade;
  };
  EXPECT_EQ(grade(0x1p-19), Grade::tie);
  EXPECT_EQ(grade(0x1.1p-19), Grade::different);
  EXPECT_EQ(grade(std::nullopt), Grade::different);
}

TEST(Exactness, AShorterResultDiffersAtItsEnd) {
  Hypothesis other = hypothesis();
  for (auto field : {&Hypothesis::tokens, &Hypothesis::frames, &Hypothesis::durations})
    (other.*field).pop_back();
  size_t asked = 99;
  const MarginOf note = [&](size_t index) {
    asked = index;
    return std::optional<double>(0.0);
  };
  EXPECT_EQ(compare(hypothesis(), other, false, note, kFp32).grade, Grade::tie);
  EXPECT_EQ(asked, 2U);
}

TEST(Exactness, EpsilonIsTheSpacingAtSixteen) {
  EXPECT_EQ(tie_epsilon("fp32"), std::nextafter(16.0F, 32.0F) - 16.0F);
  EXPECT_EQ(tie_epsilon("fp16"), 16.0 / 1024);
  EXPECT_EQ(tie_epsilon("bf16"), 16.0 / 128);
}

TEST(Audit, CountsGradesAndKeepsTheFirstOfTheWorst) {
  Audit audit;
  const auto add = [&](Grade grade, const char* id) {
    audit.add({grade, 0, 0.5}, [&] {
      FirstDifference d;
      d.utterance = id;
      return d;
    });
  };
  add(Grade::exact, "a");
  EXPECT_FALSE(audit.first);
  add(Grade::text, "b");
  add(Grade::different, "c");
  add(Grade::different, "d");
  add(Grade::bitwise, "e");
  EXPECT_EQ(audit.worst, Grade::different);
  EXPECT_EQ(audit.counts, (std::vector<int64_t>{1, 1, 0, 1, 0, 2}));
  ASSERT_TRUE(audit.first);
  EXPECT_EQ(audit.first->utterance, "c");
  EXPECT_EQ(audit.first->margin, 0.5);
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
