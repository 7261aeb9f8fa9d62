#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/config/plan.h"
#include "harness/results/statistics.h"

namespace rtfx {
namespace {

using Batches = std::vector<std::vector<size_t>>;

const std::vector<double> kSeconds = {3, 9, 1, 9, 5};

TEST(Batches, SortKeepsTheOrderOfEqualLengths) {
  const BatchRule two{false, 2};
  EXPECT_EQ(make_batches(kSeconds, "duration_desc", two, 1), (Batches{{1, 3}, {4, 0}, {2}}));
  EXPECT_EQ(make_batches(kSeconds, "duration_asc", two, 1), (Batches{{2, 0}, {4, 1}, {3}}));
  EXPECT_EQ(make_batches(kSeconds, "none", two, 1), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(make_batches({}, "none", two, 1), Batches{});
}

TEST(Batches, SecondsCountPaddingAndLongUtterancesGoAlone) {
  // Two utterances, padded to 9 s, have 18 s. The one of 9 s goes alone, since it is above 8 s.
  EXPECT_EQ(make_batches(kSeconds, "duration_desc", {true, 18}, 1), (Batches{{1, 3}, {4, 0, 2}}));
  EXPECT_EQ(make_batches(kSeconds, "duration_desc", {true, 8}, 1),
            (Batches{{1}, {3}, {4}, {0, 2}}));
  // In ascending order, the last utterance of a batch is its longest, and 3 x 5 s = 15 s is above
  // 12 s.
  EXPECT_EQ(make_batches(kSeconds, "duration_asc", {true, 12}, 1),
            (Batches{{2, 0}, {4}, {1}, {3}}));
}

TEST(Batches, ShuffleDependsOnTheSeedAlone) {
  const std::vector<double> seconds(50, 1.0);
  const BatchRule all{false, 50};
  const auto first = make_batches(seconds, "shuffle", all, 1);
  EXPECT_EQ(make_batches(seconds, "shuffle", all, 1), first);
  EXPECT_NE(make_batches(seconds, "shuffle", all, 2), first);
  EXPECT_EQ(std::set<size_t>(first[0].begin(), first[0].end()).size(), 50U);
}

TEST(RoundOrder, IsReversedFromRoundToRound) {
  for (const size_t arms : {2U, 3U}) {
    const auto forward = round_order(arms, 0, 1);
    auto backward = forward;
    std::reverse(backward.begin(), backward.end());
    EXPECT_TRUE(std::is_permutation(forward.begin(), forward.end(), backward.begin()));
    EXPECT_EQ(round_order(arms, 1, 1), backward);
  }
  // Two decoders take turns in the order A B | B A | B A | A B.
  std::string sequence;
  for (int64_t round = 0; round < 4; ++round)
    for (const size_t arm : round_order(2, round, 1))
      sequence += arm == round_order(2, 0, 1)[0] ? 'A' : 'B';
  EXPECT_EQ(sequence, "ABBABAAB");
}

TEST(RoundOrder, EachDecoderHasEachPlaceAndFollowsEachOtherEquallyOften) {
  for (size_t arms = 2; arms <= 9; ++arms) {
    const size_t rounds = arms % 2 == 0 ? arms : 2 * arms;
    std::map<std::pair<size_t, size_t>, size_t> at, after;
    for (size_t round = 0; round < rounds; ++round) {
      const auto order = round_order(arms, static_cast<int64_t>(round), 5);
      for (size_t place = 0; place < arms; ++place) {
        ++at[{order[place], place}];
        if (place > 0) ++after[{order[place - 1], order[place]}];
      }
    }
    EXPECT_EQ(at.size(), arms * arms);
    for (const auto& [pair, count] : at) EXPECT_EQ(count, rounds / arms) << arms;
    EXPECT_EQ(after.size(), arms * (arms - 1));
    for (const auto& [pair, count] : after) EXPECT_EQ(count, rounds / arms) << arms;
  }
}

TEST(RoundOrder, DependsOnTheSeed) {
  std::set<std::vector<size_t>> orders;
  for (int64_t seed = 0; seed < 20; ++seed) orders.insert(round_order(3, 0, seed));
  EXPECT_GT(orders.size(), 2U);
}

TEST(Statistics, AreThoseOfASample) {
  // 19229.6 s of audio took 44.0, 44.4, 44.2, 44.6 and 44.3 s.
  std::vector<double> rtfx;
  for (const double seconds : {44.0, 44.4, 44.2, 44.6, 44.3}) rtfx.push_back(19229.6 / seconds);
  const Spread s = spread_of(rtfx);
  EXPECT_NEAR(s.mean, 434.086, 1e-3);
  EXPECT_NEAR(s.sd, 2.191, 1e-3);
  EXPECT_NEAR(s.cv(), 0.00505, 1e-5);
  EXPECT_DOUBLE_EQ(s.min, 19229.6 / 44.6);
  EXPECT_DOUBLE_EQ(s.max, 19229.6 / 44.0);
  EXPECT_EQ(spread_of({2.0}).sd, 0);
}

TEST(Batches, OfAWarmUpAreOthers) {
  const Batches measured = {{5, 1, 3, 0}, {4, 2, 8}, {6, 7}};
  EXPECT_EQ(shifted_batches(measured), (Batches{{5, 1}, {3, 0, 4, 2}, {8, 6, 7}}));
  EXPECT_EQ(shifted_batches({{2, 0, 1}}), (Batches{{2}, {0, 1}}));
  EXPECT_EQ(shifted_batches({{2}, {0}}), (Batches{{2}, {0}}));
  EXPECT_EQ(shifted_batches({}), Batches{});
}

}  // namespace
}  // namespace rtfx
