// Tests element types of kernels: the type for each dtype, and the rounding of values.
#include "base/gpu/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "models/checkpoint/precision_of.h"

namespace rtfx {
namespace {

TEST(Precision, OfADtypeOrAnErrorThatNamesIt) {
  EXPECT_EQ(precision_of(c10::kFloat, ""), Precision::fp32);
  EXPECT_EQ(precision_of(c10::kBFloat16, ""), Precision::bf16);
  EXPECT_EQ(precision_of(c10::kHalf, ""), Precision::fp16);
  for (const auto dtype : {c10::kDouble, c10::kInt, c10::ScalarType::Float8_e4m3fn}) {
    try {
      precision_of(dtype, "a decoder");
      ADD_FAILURE() << c10::toString(dtype);
    } catch (const UserError& e) {
      EXPECT_EQ(e.where(), "a decoder");
      EXPECT_NE(std::string(e.what()).find(c10::toString(dtype)), std::string::npos) << e.what();
    }
  }
}

TEST(Precision, OfKernelsWithElementsOfTwoBytes) {
  EXPECT_EQ(half_precision_of(c10::kBFloat16, ""), Precision::bf16);
  EXPECT_EQ(half_precision_of(c10::kHalf, ""), Precision::fp16);
  for (const auto dtype : {c10::kFloat, c10::kDouble}) {
    try {
      half_precision_of(dtype, "an encoder");
      ADD_FAILURE() << c10::toString(dtype);
    } catch (const UserError& e) {
      EXPECT_EQ(e.where(), "an encoder");
      EXPECT_NE(std::string(e.what()).find("use bf16 or fp16"), std::string::npos) << e.what();
    }
  }
}

TEST(Precision, IsATypeOfElements) {
  const auto size = [](auto element) { return sizeof(element); };
  EXPECT_EQ(with_type(Precision::fp32, size), 4u);
  EXPECT_EQ(with_type(Precision::bf16, size), 2u);
  EXPECT_EQ(with_type(Precision::fp16, size), 2u);
  EXPECT_TRUE(with_type(Precision::bf16, [](auto element) {
    return std::is_same_v<decltype(element), __nv_bfloat16>;
  }));
  EXPECT_TRUE(with_type(Precision::fp16,
                        [](auto element) { return std::is_same_v<decltype(element), __half>; }));
}

TEST(Precision, RoundsToTheNearestThenToEven) {
  EXPECT_EQ(rounded<float>(0.1f), 0.1f);
  // From 1 on, bfloat16 has steps of 2^-7, and float16 has steps of 2^-10.
  EXPECT_EQ(rounded<__nv_bfloat16>(1 + 0x1p-8f), 1);
  EXPECT_EQ(rounded<__nv_bfloat16>(1 + 3 * 0x1p-8f), 1 + 0x1p-6f);
  EXPECT_EQ(rounded<__nv_bfloat16>(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(rounded<__half>(1 + 0x1p-11f), 1);
  EXPECT_EQ(rounded<__half>(1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(rounded<__half>(1e6f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded<__nv_bfloat16>(-std::numeric_limits<float>::infinity()),
            -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(rounded<__nv_bfloat16>(std::nanf(""))));
  EXPECT_TRUE(std::isnan(rounded<__half>(std::nanf(""))));
}

}  // namespace
}  // namespace rtfx
