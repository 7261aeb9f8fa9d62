#include "harness/scoring/normalize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "harness/scoring/whisper_numbers.h"

namespace rtfx {
namespace {

using Strings = std::vector<std::string>;

Strings words(std::string_view normalizer, std::string_view text) {
  return find_normalizer(normalizer, "test").words(text);
}

TEST(NormalizeTest, NoneSplitsOnAsciiWhiteSpaceAlone) {
  EXPECT_EQ(words("none", "  He said:\t\"Hi!\"\r\nA\u00a0B\v\f"),
            (Strings{"He", "said:", "\"Hi!\"", "A\u00a0B"}));
  EXPECT_EQ(words("none", ""), Strings{});
  EXPECT_EQ(words("none", " \n "), Strings{});
}

TEST(NormalizeTest, BasicEnglishLowersAndDropsPunctuation) {
  EXPECT_EQ(words("basic_english", "Mr. O'Neill's DOG -- twenty-one, 3.5 km/h!"),
            (Strings{"mr", "o'neill's", "dog", "twenty", "one", "3", "5", "km", "h"}));
  EXPECT_EQ(words("basic_english", "..."), Strings{});
}

TEST(NormalizeTest, BasicEnglishIsUnicode) {
  EXPECT_EQ(words("basic_english", "CAFÉ\u00a0ÜBER"), (Strings{"café", "über"}));
  EXPECT_EQ(words("basic_english", "cafe\u0301"), Strings{"café"});  // composed by NFKC
  EXPECT_EQ(words("basic_english", "ﬁne ＡＢ²"), (Strings{"fine", "ab2"}));
  EXPECT_EQ(words("basic_english", "a \U0001f600 b\u2014c"), (Strings{"a", "b", "c"}));
}

TEST(NormalizeTest, BasicEnglishReadsTheTypographicApostrophe) {
  EXPECT_EQ(words("basic_english", "Don\u2019t"), Strings{"don't"});
  EXPECT_EQ(words("basic_english", "l\u2019e\u0301te\u0301 м\u02bcята ŉ the 1990\u2019s"),
            (Strings{"l'été", "м'ята", "'n", "the", "1990's"}));
  EXPECT_EQ(words("basic_english", "\u2018so\u2019 she said, \u2019tis the boys\u2019."),
            (Strings{"so", "she", "said", "tis", "the", "boys"}));
}

TEST(NormalizeTest, BasicEnglishKeepsMarksAndJoinersInWords) {
  // Words stay whole with marks that take a place of their own (Mc) and with those that do not
  // (Mn).
  for (const char* word : {"हिन्दी", "தமிழ்", "বাংলা", "తెలుగు", "مُحَمَّد", "שָׁלוֹם", "ภาษาไทย", "မြန်မာ"})
    EXPECT_EQ(words("basic_english", fmt::format("a {}, {}!", word, word)).size(), 3U) << word;
  EXPECT_EQ(words("basic_english", "हिन्दी में लिखा"), (Strings{"हिन्दी", "में", "लिखा"}));
  EXPECT_EQ(words("basic_english", "İSTANBUL"), Strings{"i\u0307stanbul"});
  EXPECT_EQ(words("basic_english", "می\u200cخواهم که"), (Strings{"می\u200cخواهم", "که"}));
  EXPECT_EQ(words("basic_english", "र\u094d\u200dक র\u200d\u09cdয"),
            (Strings{"र\u094d\u200dक", "র\u200d\u09cdয"}));
  // A joiner at the end of a word is dropped, and these characters are dropped within a word.
  EXPECT_EQ(words("basic_english", "ها\u200c، \u200cها"), (Strings{"ها", "ها"}));
  EXPECT_EQ(words("basic_english", "co\u00adop \u200eab\u2060c\ufeff"), (Strings{"coop", "abc"}));
  EXPECT_EQ(words("basic_english", "a\u200bb"), (Strings{"a", "b"}));  // a space without width
  // Marks make no word where there is none.
  EXPECT_EQ(words("basic_english", "\u2764\ufe0f \U0001f468\u200d\U0001f469 \u0301 -\u0301"),
            Strings{});
}

TEST(NormalizeTest, UnicodeWordsNeedNoSpaces) {
  EXPECT_EQ(words("unicode_words", "今天 Deploy 了3个app。"),
            (Strings{"今", "天", "deploy", "了", "3", "个", "app"}));
  EXPECT_EQ(words("unicode_words", "東京タワーへ行く"),
            (Strings{"東", "京", "タワー", "へ", "行", "く"}));
  EXPECT_EQ(words("unicode_words", "ﾀﾜｰgo"), (Strings{"タワー", "go"}));
  EXPECT_EQ(words("unicode_words", "ที่นี่"), (Strings{"ที่", "นี่"}));  // marks stay with their letter
  EXPECT_EQ(words("unicode_words", "か\u3099 \U00020000\U00020001"),
            (Strings{"が", "\U00020000", "\U00020001"}));
  for (const std::string text : {"Don\u2019t stop, the boys\u2019 3rd km/h!", "हिन्दी में लिखा",
                                 "안녕하세요 세계", "می\u200cخواهم که", "CAFÉ\u00a0ÜBER", ""})
    EXPECT_EQ(words("unicode_words", text), words("basic_english", text)) << text;
}

TEST(NormalizeTest, BrokenUtf8SeparatesWords) {
  EXPECT_EQ(words("basic_english",
                  "a\xff"
                  "b"),
            (Strings{"a", "b"}));
}

TEST(NormalizeTest, NamesAndVersions) {
  for (const auto& normalizer : normalizers()) {
    EXPECT_EQ(find_normalizer(normalizer.name, "").words, normalizer.words);
    // A changed rule has another version, because figures by both are not comparable.
    EXPECT_EQ(normalizer.version, normalizer.name == "basic_english" ? 2 : 1);
  }
}

TEST(NormalizeTest, AnUnknownNameIsAUserError) {
  try {
    find_normalizer("basic_englich", "/scorer/name");
    FAIL() << "did not throw";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "/scorer/name: unknown normalizer 'basic_englich'; did you mean 'basic_english'? "
                 "allowed: none, basic_english, unicode_words, whisper_english");
  }
}

// These tests compare with the output of the Python package whisper-normalizer for the same lines
// (tests/golden/make_whisper_english.py).

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
