// Against what the Python package whisper-normalizer makes of the same lines
// (tests/golden/make_whisper_english.py).
#include "harness/scoring/whisper_english.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text_lines.h"
#include "harness/scoring/decimal.h"
#include "harness/scoring/normalize.h"

namespace rtfx {
namespace {

std::string normalized(std::string_view text) {
  return fmt::format("{}", fmt::join(find_normalizer("whisper_english", "test").words(text), " "));
}

TEST(WhisperEnglishTest, EqualsThePublishedPackage) {
  const char* other = std::getenv("RTFX_WHISPER_ENGLISH");
  TextLines lines(other ? other : "tests/golden/data/whisper_english.jsonl.gz");
  int64_t count = 0, differing = 0;
  for (std::string_view line; lines.next(line); ++count) {
    const auto pair = nlohmann::json::parse(line);
    const std::string text = pair.at(0), expected = pair.at(1), found = normalized(text);
    if (found == expected) continue;
    if (++differing <= 10) ADD_FAILURE() << text << "\n  " << expected << "\n  " << found;
  }
  EXPECT_EQ(differing, 0) << "of " << count;
  EXPECT_GE(count, other ? 1 : 10'000);
}

TEST(WhisperEnglishTest, WhatTheDocumentationSays) {
  EXPECT_EQ(normalized("Um, Mr. Smith's colour won't [noise] cost two hundred and five dollars!"),
            "mister smith is color will not cost $205");
  EXPECT_EQ(normalized("the nineteen eighties; twenty-first, 3,000.5 and ten per cent"),
            "the 1980s 21st 3000.5 and 10%");
  EXPECT_EQ(normalized("$2 and 7 cents, one half"), "$2.07 one half");
  EXPECT_EQ(normalized("two and a half million"), "2500000");
  EXPECT_EQ(normalized("Señor Œdipe's façade"), "senor oedipe is facade");
  EXPECT_EQ(normalized("a\xff\n"), "a");  // not UTF-8: read as U+FFFD, a symbol
  EXPECT_EQ(normalized(""), "");
}

TEST(WhisperEnglishTest, NumbersMayHaveAnyLength) {
  EXPECT_EQ(normalized("nine decillion"), "9" + std::string(33, '0'));
  EXPECT_EQ(normalized(std::string(43, '9') + "0 nine"), std::string(44, '9'));
  EXPECT_EQ(with_last_thousand_times(U"2005", 3), U"7000");
  EXPECT_EQ(sum(U"999", U"2"), U"1001");
  EXPECT_EQ(times_power_of_ten(U"1.250", 2), U"125");
  EXPECT_EQ(times_power_of_ten(U"1.251", 2), std::nullopt);
  EXPECT_EQ(times_power_of_ten(U"1.2.5", 2), std::nullopt);
  EXPECT_TRUE(ends_in_zeros(U"0", 2));
  EXPECT_FALSE(ends_in_zeros(U"10", 2));
}

}  // namespace
}  // namespace rtfx
