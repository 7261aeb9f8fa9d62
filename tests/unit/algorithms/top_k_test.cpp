// Tests the rule for equal values of top_k().
#include "algorithms/shared/beams/top_k.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace rtfx {
namespace {

TEST(TopK, TheLowestIndexComesFirstAmongEquals) {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor values = at::tensor({-0.0f, 2.f, -inf, 2.f, 0.0f, -1.f, 2.f, -inf});
  for (const int64_t k : {1, 2, 5, 8}) {
    const TopK top = top_k(values, k);
    const at::Tensor order = at::tensor({1, 3, 6, 0, 4, 5, 2, 7}, at::kLong).narrow(0, 0, k);
    EXPECT_TRUE(at::equal(top.indices, order)) << k;
    EXPECT_TRUE(at::equal(top.values, values.index_select(0, order))) << k;
  }
}

TEST(TopK, RandomRowsAreSorted) {
  at::manual_seed(1);
  const at::Tensor values = at::randint(-5, 5, {20, 3, 50}).to(at::kFloat) / 3;
  const auto [sorted, order] = values.sort(/*stable=*/true, -1, /*descending=*/true);
  const TopK top = top_k(values, 17);
  EXPECT_TRUE(at::equal(top.indices, order.narrow(2, 0, 17)));
  EXPECT_TRUE(at::equal(top.values, sorted.narrow(2, 0, 17)));
}

// Values are few, so in every row some that equal the last chosen value are left out.
TEST(TopK, EqualValuesAtTheBoundaryAreTakenFromTheLeft) {
  at::manual_seed(2);
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t width : {4, 17, 1025}) {
    at::Tensor values = at::randint(0, 3, {64, width}).to(at::kFloat);
    values.masked_fill_(values == 0, -inf);
    const auto [sorted, order] = values.sort(/*stable=*/true, -1, /*descending=*/true);
    for (const int64_t k : {2, 3, 4}) {
      const TopK top = top_k(values, k);
      EXPECT_TRUE(at::equal(top.indices, order.narrow(1, 0, k))) << width << " " << k;
      EXPECT_TRUE(at::equal(top.values, sorted.narrow(1, 0, k))) << width << " " << k;
    }
  }
}

TEST(TopK, RowsMayLieApartInMemory) {
  at::manual_seed(3);
  const at::Tensor values = at::randint(0, 4, {30, 8}).to(at::kFloat).t();
  const at::Tensor order = std::get<1>(values.sort(/*stable=*/true, -1, /*descending=*/true));
  EXPECT_TRUE(at::equal(top_k(values, 5).indices, order.narrow(1, 0, 5)));
}

TEST(TopK, NanIsTheGreatestValue) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TopK top = top_k(at::tensor({1.f, nan, 3.f, -nan}), 3);
  EXPECT_TRUE(at::equal(top.indices, at::tensor({1, 3, 2}, at::kLong)));
  EXPECT_TRUE(top.values.isnan().narrow(0, 0, 2).all().item<bool>());
}

}  // namespace
}  // namespace rtfx
