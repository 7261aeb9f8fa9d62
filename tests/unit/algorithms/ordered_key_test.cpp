// Tests the order of floats as integers, on values where such an order may go wrong: both zeros,
// denormal numbers, infinities, NaN.
#include "algorithms/gpu/ordered_key.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "algorithms/shared/beams/top_k.h"

namespace rtfx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kAscending = {-kInfinity, -1e30f, -2.5f, -1e-40f, 0.0f,
                                       1e-40f,     1.0f,   2.5f,  1e30f,   kInfinity};

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(OrderedKey, BitsHaveTheOrderOfTheValuesAndGiveThemBack) {
  for (size_t i = 0; i < kAscending.size(); ++i) {
    EXPECT_TRUE(same_bits(from_ordered_bits(ordered_bits(kAscending[i])), kAscending[i]));
    EXPECT_TRUE(same_bits(from_ordered_bits(rank_of(kAscending[i])), kAscending[i]));
    if (i == 0) continue;
    EXPECT_LT(ordered_bits(kAscending[i - 1]), ordered_bits(kAscending[i])) << kAscending[i];
    EXPECT_LT(rank_of(kAscending[i - 1]), rank_of(kAscending[i])) << kAscending[i];
  }
}

TEST(OrderedKey, NegativeZeroIsBelowZeroAsBitsAndEqualAsARank) {
  EXPECT_LT(ordered_bits(-0.0f), ordered_bits(0.0f));
  EXPECT_GT(ordered_bits(-0.0f), ordered_bits(-1e-45f));
  EXPECT_TRUE(same_bits(from_ordered_bits(ordered_bits(-0.0f)), -0.0f));
  EXPECT_EQ(rank_of(-0.0f), rank_of(0.0f));
}

TEST(OrderedKey, EveryNanIsTheGreatestRank) {
  for (const float nan :
       {kNan, -kNan, std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffffffffu)}) {
    EXPECT_EQ(rank_of(nan), rank_of(kNan));
    EXPECT_GT(rank_of(nan), rank_of(kInfinity));
    EXPECT_TRUE(std::isnan(from_ordered_bits(rank_of(nan))));
  }
  EXPECT_GT(ordered_bits(kNan), ordered_bits(kInfinity));
  EXPECT_LT(ordered_bits(std::bit_cast<float>(0xffc00000u)), ordered_bits(-kInfinity));
}

TEST(OrderedKey, TheGreaterValueThenTheLowerIndexHasTheGreaterKey) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < kAscending.size(); ++i) {
    const MaxKey key = max_key(kAscending[i], 7);
    EXPECT_TRUE(same_bits(value_of(key), kAscending[i]));
    EXPECT_EQ(index_of(key), 7);
    EXPECT_EQ(index_of(max_key(kAscending[i], 0)), 0);
    EXPECT_EQ(index_of(max_key(kAscending[i], kMost)), kMost);
    EXPECT_GT(max_key(kAscending[i], 6), key);
    if (i == 0) continue;
    EXPECT_LT(max_key(kAscending[i - 1], 0), max_key(kAscending[i], kMost));
  }
  EXPECT_GT(max_key(-0.0f, 1), max_key(0.0f, 2));
  EXPECT_GT(max_key(0.0f, 1), max_key(-0.0f, 2));
  EXPECT_GT(max_key(kNan, kMost), max_key(kInfinity, 0));
  EXPECT_GT(max_key(-kInfinity, kMost), MaxKey{0});
  EXPECT_LT(max_key(kNan, 0), ~MaxKey{0});
}

TEST(OrderedKey, HasTheRuleOfTopK) {
  const std::vector<float> values = {0.0f, -0.0f, kInfinity, -kInfinity, 1e-40f, -1e-40f, 0.0f};
  const auto n = static_cast<int64_t>(values.size());
  std::vector<MaxKey> keys;
  for (int32_t i = 0; i < n; ++i) keys.push_back(max_key(values[static_cast<size_t>(i)], i));
  std::sort(keys.rbegin(), keys.rend());
  const TopK best = top_k(at::tensor(values), n);
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(index_of(keys[static_cast<size_t>(i)]), best.indices[i].item<int64_t>()) << i;
}

}  // namespace
}  // namespace rtfx
