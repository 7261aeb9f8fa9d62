#include "base/text.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

using Parts = std::vector<std::string_view>;

TEST(SplitAt, PartsAreNeverEmpty) {
  EXPECT_EQ(split_at("a b\t c", " \t"), (Parts{"a", "b", "c"}));
  EXPECT_EQ(split_at(" a\nb ", " "), (Parts{"a\nb"}));
  EXPECT_EQ(split_at(" \t", " \t"), Parts{});
  EXPECT_EQ(split_at("", " "), Parts{});
}

TEST(SingleSpaced, WordsHaveOneSpaceBetweenThem) {
  EXPECT_EQ(single_spaced("\t one\r\n two\v\fthree "), "one two three");
  EXPECT_EQ(single_spaced("one\u00a0two"), "one\u00a0two");
  EXPECT_EQ(single_spaced(" \n"), "");
}

}  // namespace
}  // namespace rtfx
