#include "harness/scoring/normalize.h"

#include <gtest/gtest.h>

#include "base/error.h"

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
  EXPECT_EQ(words("basic_english", "don\u2019t \U0001f600 a"), (Strings{"don", "t", "a"}));
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
    EXPECT_EQ(normalizer.version, 1);
  }
}

TEST(NormalizeTest, AnUnknownNameIsAUserError) {
  try {
    find_normalizer("basic_englich", "/scorer/name");
    FAIL() << "did not throw";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "/scorer/name: unknown normalizer 'basic_englich'; did you mean 'basic_english'? "
                 "allowed: none, basic_english, whisper_english");
  }
}

}  // namespace
}  // namespace rtfx
