#include "base/notices.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

TEST(Notices, EachKindIsOneLineWithTheNumberOfItsFiles) {
  Notices notices;
  EXPECT_TRUE(notices.lines().empty());
  notices.add("a.wav", "resampled");
  notices.add("a.wav", "mixed 2 channels to mono");
  notices.add("b.wav", "resampled");
  notices.add("c.wav", "resampled");
  EXPECT_EQ(notices.lines(), (std::vector<std::string>{"3 files, a.wav first: resampled",
                                                       "a.wav: mixed 2 channels to mono"}));
}

}  // namespace
}  // namespace rtfx
