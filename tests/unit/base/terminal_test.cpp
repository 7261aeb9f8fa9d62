#include "base/terminal.h"

#include <gtest/gtest.h>

#include <system_error>

namespace rtfx {
namespace {

TEST(Wrapped, BreaksBetweenWordsAlone) {
  EXPECT_EQ(wrapped("one two three", 20), "one two three");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("a_name_without_blanks is long", 8), "a_name_without_blanks\nis long");
}

TEST(Wrapped, KeepsLineEndsAndColumnsThatFit) {
  EXPECT_EQ(wrapped("first\nsecond line", 20, 4), "first\n    second line");
  EXPECT_EQ(wrapped("  8  fp32", 20), "  8  fp32");
}

TEST(Shortened, KeepsWholeCharactersOfTheEnd) {
  EXPECT_EQ(shortened("Grüße", 5), "Grüße");
  EXPECT_EQ(shortened("Grüße", 4), "…üße");
  EXPECT_EQ(shortened("\xff\xff\xff", 2), "…\xff");
  EXPECT_EQ(shortened("", 1), "");
  EXPECT_EQ(width_of("e\u0301"), 1U);  // with a combining accent
  EXPECT_EQ(shortened("ae\u0301b", 3), "ae\u0301b");
  EXPECT_EQ(shortened("ae\u0301b", 2), "…b");
}

TEST(Shortened, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(shortened("日本語 🙂", 9), "日本語 🙂");
  EXPECT_EQ(shortened("日本語 🙂", 8), "…本語 🙂");
  EXPECT_EQ(shortened("日本語 🙂", 7), "…語 🙂");  // one column is left
  EXPECT_EQ(shortened("日本語 🙂", 4), "… 🙂");
  EXPECT_EQ(shortened("日本語 🙂", 2), "…");
  EXPECT_EQ(shortened("日本語 🙂", 1), "…");
}

TEST(Wrapped, CountsColumnsAndNoBytes) {
  EXPECT_EQ(width_of("35.2 ± 2.5"), 10U);
  EXPECT_EQ(width_of("日本"), 4U);
  EXPECT_EQ(wrapped("日本 語", 7), "日本 語");
  EXPECT_EQ(wrapped("日本 語", 6), "日本\n語");
  EXPECT_EQ(wrapped("± ± ± ±", 7), "± ± ± ±");
  EXPECT_EQ(wrapped("± ± ± ±", 6), "± ± ±\n±");
}

TEST(PrintMessage, FormatsItsValues) {
  testing::internal::CaptureStderr();
  print_message("{} of {}\n", 1, 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "1 of 2\n");
}

TEST(PrintWhileRead, EndsWhereTheReaderHasLeft) {
  const auto failing = [](std::errc error) {
    return [error] { throw std::system_error(std::make_error_code(error)); };
  };
  EXPECT_NO_THROW(print_while_read(failing(std::errc::broken_pipe)));
  EXPECT_THROW(print_while_read(failing(std::errc::no_space_on_device)), std::system_error);
}

}  // namespace
}  // namespace rtfx
