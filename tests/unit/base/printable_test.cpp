#include "base/printable.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

TEST(Printable, LeavesWhatATerminalShows) {
  for (const char* text :
       {"", "label_looping[window=8]", "Grüße, 日本語 🙂", R"(back\slash "quoted")"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b]0;title\x07z"), R"(a\x1b]0;title\x07z)");
  EXPECT_EQ(printable("one\ntwo\r\tthree\x7f"), R"(one\ntwo\r\tthree\x7f)");
  EXPECT_EQ(printable(std::string("a\0b", 3)), R"(a\x00b)");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            R"(\u009b31m)");                                    // CSI as one character
  EXPECT_EQ(printable("x\u202egnp.exe"), R"(x\u202egnp.exe)");  // from right to left
  EXPECT_EQ(printable("x\u2028y"), R"(x\u2028y)");
  EXPECT_EQ(printable("x\uffffy"), R"(x\uffffy)");
}

TEST(Printable, ShowsBytesThatAreNoText) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            R"(\x9b31m)");
  EXPECT_EQ(printable("caf\xe9"), R"(caf\xe9)");
  EXPECT_EQ(printable("\xc0\x9b"), R"(\xc0\x9b)");          // a longer form of U+001B
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)");  // half of a pair of UTF-16
  EXPECT_EQ(printable("\xe2\x82"), R"(\xe2\x82)");          // cut short
}

}  // namespace
}  // namespace rtfx
