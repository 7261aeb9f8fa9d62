#include "base/numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace rtfx {
namespace {

TEST(ParseNumber, ReadsAWholeText) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<double>("1.5e3"), 1500);
  EXPECT_EQ(parse_number<uint8_t>("fF", 16), 255);
}

TEST(ParseNumber, RefusesAnythingElse) {
  for (const std::string text : {"", " 1", "1 ", "+1", "1.0", "one", "0x1"})
    EXPECT_FALSE(parse_number<int>(text)) << text;
  EXPECT_FALSE(parse_number<double>("1,5"));
}

TEST(ParseNumber, RefusesWhatTheTypeCannotHold) {
  EXPECT_EQ(parse_number<uint8_t>("255"), 255);
  EXPECT_FALSE(parse_number<uint8_t>("256"));
  EXPECT_FALSE(parse_number<uint8_t>("-1"));
  EXPECT_FALSE(parse_number<float>("1e39"));
}

}  // namespace
}  // namespace rtfx
