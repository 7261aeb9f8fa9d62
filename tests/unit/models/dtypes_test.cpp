#include "models/dtypes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace rtfx {
namespace {

TEST(Dtypes, ALabelIsReadBackAndThereIsOneForEachPair) {
  const std::vector<at::ScalarType> encoders = {at::kFloat, at::kBFloat16, at::kHalf,
                                                at::kFloat8_e4m3fn};
  std::vector<std::string> labels;
  for (const at::ScalarType encoder : encoders) {
    for (const at::ScalarType decoder : {at::kFloat, at::kBFloat16, at::kHalf}) {
      labels.push_back(Dtypes(encoder, decoder).label());
      const Dtypes read = parse_dtypes(labels.back(), "here");
      EXPECT_EQ(read.encoder, encoder) << labels.back();
      EXPECT_EQ(read.decoder, decoder) << labels.back();
    }
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"fp32", "fp32+bf16", "fp32+fp16", "bf16+fp32", "bf16",
                                              "bf16+fp16", "fp16+fp32", "fp16+bf16", "fp16",
                                              "fp8+fp32", "fp8", "fp8+fp16"}));
}

TEST(Dtypes, EachNameIsReadBack) {
  for (const std::string& name : dtype_names())
    EXPECT_EQ(dtype_name(parse_dtypes(name, "here").encoder), name);
}

TEST(Dtypes, OtherWaysToSayTheSame) {
  EXPECT_EQ(parse_dtypes("bf16+bf16", "here").label(), "bf16");
  EXPECT_EQ(parse_dtypes("fp8+bf16", "here").label(), "fp8");
  EXPECT_EQ(parse_dtypes("fp8", "here").decoder, at::kBFloat16);
  EXPECT_EQ(parse_dtypes("fp64", "here").decoder, at::kDouble);
  EXPECT_EQ(Dtypes(at::kDouble).label(), "fp64");
}

TEST(Dtypes, WhatThereIsNotIsAUserError) {
  for (const char* label : {"", "fp23", "fp32+", "+fp32", "fp32+bf16+fp16", "fp32+fp8", "fp8+fp8"})
    EXPECT_THROW(parse_dtypes(label, "here"), UserError) << label;
}

}  // namespace
}  // namespace rtfx
