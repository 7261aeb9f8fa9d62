#include "harness/results/verdict.h"

#include <gtest/gtest.h>

#include "harness/results/compare.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

TEST(Judge, ImprovementNeverFails) {
  EXPECT_EQ(judge({1.5, 1.4, 1.6}, 0.02, 0.01).verdict, Verdict::pass);
  EXPECT_EQ(judge({1.5, 1.01, 2.0}, 0.0, 0.5).verdict, Verdict::pass);  // also within the noise
}

TEST(Judge, TheIntervalAgainstTheTolerance) {
  EXPECT_EQ(judge({1.0, 0.985, 1.015}, 0.02, 0.01).verdict, Verdict::pass);
  EXPECT_EQ(judge({0.99, 0.975, 1.005}, 0.02, 0.01).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01).verdict, Verdict::regressed);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01, 0.97).verdict, Verdict::regressed);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01, 0.985).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.97, 0.96, 0.981}, 0.02, 0.01).verdict, Verdict::inconclusive);
}

TEST(Judge, AToleranceBelowTheNoiseIsRefused) {
  const Judgement same = judge({1.0, 0.999, 1.001}, 0.01, 0.03);
  EXPECT_EQ(same.verdict, Verdict::inconclusive);
  EXPECT_HAS(same.reason, "tolerance of 1 % is below the noise floor of 3 %");
  EXPECT_EQ(judge({0.98, 0.975, 0.985}, 0.01, 0.03).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.5, 0.48, 0.52}, 0.01, 0.03).verdict, Verdict::regressed);
}

TEST(Judge, SharesArePercentWithoutPowersOfTen) {
  EXPECT_HAS(judge({1.0, 0.5, 2.3}, 0.05, 1.3).reason,
             "tolerance of 5 % is below the noise floor of 130 %");
  EXPECT_EQ(percent_text(0.0025), "0.25 %");
  EXPECT_EQ(percent_text(0.12), "12 %");
  EXPECT_EQ(percent_text(0.996), "100 %");
  const GateRow row{.case_name = "c",
                    .what = "rtfx.decode",
                    .baseline = 35.2,
                    .current = 33.1,
                    .change = Interval{0.94, 0.93, 0.951},
                    .tolerance = 0.05,
                    .floor = 1.3};
  EXPECT_HAS(figures_of(row), "tolerance 5 %, noise 130 %");
}

/// A time may grow by a factor of 1 + tolerance, which is a gain of 1 / (1 + tolerance).
TEST(Judge, ATimeMayGrowByTheTolerance) {
  const auto judged = [](double grown, double tolerance, double floor = 0.01) {
    return judge({1 / grown, 0.999 / grown, 1.001 / grown}, tolerance, floor, {},
                 /*less_is_better=*/true);
  };
  EXPECT_EQ(judged(1.09, 0.1).verdict, Verdict::pass);
  EXPECT_EQ(judged(1.108, 0.1).verdict, Verdict::regressed);
  EXPECT_EQ(judged(1.49, 0.5).verdict, Verdict::pass);
  EXPECT_EQ(judged(1.9, 0.5).verdict, Verdict::regressed);
  EXPECT_EQ(judged(1.45, 0.1, 0.5).verdict, Verdict::inconclusive);
  EXPECT_HAS(judged(1.45, 0.1, 0.5).reason, "tolerance of 10 % is below the noise floor of 50 %");
  EXPECT_EQ(judged(1.55, 0.1, 0.5).verdict, Verdict::regressed);
}

TEST(Judge, OneRoundIsInconclusive) {
  const Interval unknown = unpaired_ratio({10}, {5});
  const Judgement judged = judge(unknown, 0.02, 0.01);
  EXPECT_EQ(judged.verdict, Verdict::inconclusive);
  EXPECT_HAS(judged.reason, "one value has no interval");
}

TEST(Verdicts, TheGraverOneWins) {
  const std::vector<Verdict> order = {Verdict::pass, Verdict::inconclusive, Verdict::regressed,
                                      Verdict::invalid, Verdict::correctness};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      EXPECT_EQ(worse(order[i], order[j]), order[i]);
      EXPECT_EQ(worse(order[j], order[i]), order[i]);
    }
  }
  EXPECT_EQ(worst({}), Verdict::invalid);
}

}  // namespace
}  // namespace rtfx
