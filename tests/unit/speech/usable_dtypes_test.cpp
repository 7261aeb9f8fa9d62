// Tests fp8 on GPUs that have no fp8 products.
#include <c10/core/ScalarType.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/dtypes.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

std::string label(const char* asked, int major, int minor, std::vector<std::string>& notices) {
  return usable_dtypes(parse_dtypes(asked, "dtype"), major, minor, notices).label();
}

TEST(UsableDtypes, HopperKeepsFp8) {
  std::vector<std::string> notices;
  EXPECT_EQ(label("fp8", 9, 0, notices), "fp8");
  EXPECT_TRUE(notices.empty());
}

TEST(UsableDtypes, OtherGpusTakeBf16WithANotice) {
  for (const auto& [major, minor] :
       {std::pair(8, 0), std::pair(8, 9), std::pair(10, 0), std::pair(12, 0)}) {
    std::vector<std::string> notices;
    EXPECT_EQ(label("fp8", major, minor, notices), "bf16");
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_NE(notices[0].find("bf16 instead of fp8"), std::string::npos);
    EXPECT_NE(notices[0].find(std::to_string(major) + "." + std::to_string(minor)),
              std::string::npos);
  }
}

TEST(UsableDtypes, OtherTypesAndCpusAreLeftAlone) {
  std::vector<std::string> notices;
  for (const char* asked : {"fp32", "bf16", "fp16", "bf16+fp32"})
    EXPECT_EQ(label(asked, 8, 9, notices), asked);
  EXPECT_EQ(usable_dtypes(parse_dtypes("fp8", "dtype"), at::kCPU, notices).label(), "fp8");
  EXPECT_TRUE(notices.empty());
}

}  // namespace
}  // namespace rtfx
