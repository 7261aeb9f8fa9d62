// Results on their way to the host.
#include "algorithms/hypotheses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace rtfx {
namespace {

at::Tensor ints(std::initializer_list<int> values, at::IntArrayRef shape) {
  return at::tensor(std::vector<int>(values), at::kInt).view(shape);
}

/// Two rows, two entries each; the second row has one only.
Hypotheses two_rows() {
  const float none = -std::numeric_limits<float>::infinity();
  NBest nbest{ints({2, 1, 0, 0}, {2, 2}), ints({7, 8, 9, 9, 1, 1, 1, 1}, {2, 2, 2}),
              ints({0, 3, 2, 2, 5, 5, 5, 5}, {2, 2, 2}), at::Tensor(),
              at::tensor({-1.5f, -2.0f, -3.0f, none}).view({2, 2})};
  Hypotheses result{nbest.lengths.select(1, 0), nbest.tokens.select(1, 0),
                    nbest.frames.select(1, 0),  at::Tensor(),
                    nbest.scores.select(1, 0),  at::tensor({0, 1}).to(at::kBool)};
  result.nbest = nbest;
  return result;
}

TEST(Hypotheses, TheListHasTheEntriesThatThereAreBestFirst) {
  const auto rows = two_rows().to_host();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(rows[0].frames, (std::vector<int32_t>{0, 3}));
  ASSERT_EQ(rows[0].nbest.size(), 2);
  EXPECT_EQ(rows[0].nbest[0].tokens, rows[0].tokens);
  EXPECT_EQ(rows[0].nbest[1].tokens, (std::vector<int32_t>{9}));
  EXPECT_EQ(rows[0].nbest[1].frames, (std::vector<int32_t>{2}));
  EXPECT_EQ(rows[0].nbest[1].score, -2.0f);
  EXPECT_FALSE(rows[0].nan);
  ASSERT_EQ(rows[1].nbest.size(), 1);
  EXPECT_TRUE(rows[1].tokens.empty());
  EXPECT_EQ(rows[1].score, -3.0f);
  EXPECT_TRUE(rows[1].nan);
}

TEST(Hypotheses, WithoutAListTheResultIsTheBest) {
  Hypotheses result = two_rows();
  result.nbest = {};
  const auto rows = result.to_host();
  EXPECT_TRUE(rows[0].nbest.empty());
  EXPECT_EQ(rows[0].tokens, (std::vector<int32_t>{7, 8}));
}

TEST(Hypotheses, ManySlotsArriveAsFewDo) {
  const int64_t rows = 3, capacity = 200'000;  // more than one trip takes
  const at::Tensor slots = at::arange(rows * capacity, at::kInt).view({rows, capacity});
  const Hypotheses given{ints({2, 0, 5}, {3}),
                         slots,
                         slots + 1,
                         slots + 2,
                         at::tensor({0.5f, 1.5f, 2.5f}),
                         at::tensor({0, 0, 1}).to(at::kBool)};
  const auto found = given.to_host();
  const Hypotheses few{given.lengths,
                       slots.narrow(1, 0, 5),
                       (slots + 1).narrow(1, 0, 5),
                       (slots + 2).narrow(1, 0, 5),
                       given.scores,
                       given.nan};
  EXPECT_EQ(found, few.to_host());
  EXPECT_EQ(found[2].durations, (std::vector<int32_t>{400002, 400003, 400004, 400005, 400006}));
  EXPECT_EQ(found[2].score, 2.5f);
  EXPECT_TRUE(found[2].nan);
  EXPECT_TRUE(found[1].tokens.empty());
}

TEST(Hypotheses, EachReachesTheListToo) {
  const Hypotheses first = two_rows().each([](const at::Tensor& t) { return t.narrow(0, 0, 1); });
  EXPECT_FALSE(first.durations.defined());
  EXPECT_FALSE(first.nbest.durations.defined());
  const auto rows = first.to_host();
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].nbest.size(), 2);
}

}  // namespace
}  // namespace rtfx
