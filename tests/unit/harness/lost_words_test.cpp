// Tests the count of words that a whole utterance has and its stream lacks, on made-up words.
#include "harness/stream/lost_words.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/stream/stream_results.h"

namespace rtfx {
namespace {

/// Returns words of 0.4 s each without pauses. The first one lasts from 0 to 0.4 s.
std::vector<TimedWord> spoken(const std::vector<std::string>& texts) {
  std::vector<TimedWord> words;
  for (const std::string& text : texts) {
    const double start = 0.4 * static_cast<double>(words.size());
    words.push_back({.text = text, .start = start, .end = start + 0.4});
  }
  return words;
}

const std::vector<std::string> kSaid = {"we", "went", "to", "the", "old", "mill", "at", "noon"};

std::vector<TimedWord> said_without(const std::string& lost) {
  std::vector<std::string> texts = kSaid;
  std::erase(texts, lost);
  return spoken(texts);
}

TEST(LostWords, NoneIsLostWhereTheStreamSaysTheSame) {
  // Three words are near the border at 1.4 s: "the" holds it, "to" ends 0.2 s before it, and "old"
  // begins 0.2 s behind it.
  const LostWords counts = count_lost_words(spoken(kSaid), spoken(kSaid), {1.4});
  EXPECT_EQ(counts, (LostWords{.words = 8, .at_seams = 3, .lost = 0, .lost_at_seams = 0}));
}

TEST(LostWords, AWordThatIsLostAtASeamIsFound) {
  for (const std::string lost : {"to", "the", "old"}) {
    const LostWords counts = count_lost_words(spoken(kSaid), said_without(lost), {1.4});
    EXPECT_EQ(counts, (LostWords{.words = 8, .at_seams = 3, .lost = 1, .lost_at_seams = 1}))
        << lost;
  }
}

TEST(LostWords, AWordThatIsLostElsewhereIsNotAtASeam) {
  for (const std::string lost : {"we", "went", "mill", "noon"}) {
    const LostWords counts = count_lost_words(spoken(kSaid), said_without(lost), {1.4});
    EXPECT_EQ(counts, (LostWords{.words = 8, .at_seams = 3, .lost = 1, .lost_at_seams = 0}))
        << lost;
  }
}

TEST(LostWords, OtherAndFurtherWordsAreNotLost) {
  std::vector<std::string> texts = kSaid;
  texts[3] = "a";
  texts.insert(texts.begin() + 6, {"just", "there"});
  EXPECT_EQ(count_lost_words(spoken(kSaid), spoken(texts), {1.4}).lost, 0);
}

TEST(LostWords, TheDistanceIsThreeFramesAndIncludesItsEnd) {
  const std::vector<TimedWord> word = {{.text = "knit", .start = 2.4, .end = 2.56}};
  const auto lost_at = [&](double border) {
    return count_lost_words(word, {}, {border}).lost_at_seams;
  };
  const double frame = 0.08;
  EXPECT_EQ(lost_at(27 * frame), 1);  // 2.16 s
  EXPECT_EQ(lost_at(26 * frame), 0);
  EXPECT_EQ(lost_at(31 * frame), 1);  // within the word
  EXPECT_EQ(lost_at(35 * frame), 1);  // 2.8 s
  EXPECT_EQ(lost_at(36 * frame), 0);
}

TEST(LostWords, AnyOfSeveralBordersCounts) {
  const auto said = spoken(kSaid);
  EXPECT_EQ(count_lost_words(said, {}, {}), (LostWords{.words = 8, .lost = 8}));
  // Near 0.1 s is "we", near 1.4 s are three words, and near 3.2 s is "noon".
  const LostWords counts = count_lost_words(said, {}, {0.1, 1.4, 3.2});
  EXPECT_EQ(counts, (LostWords{.words = 8, .at_seams = 5, .lost = 8, .lost_at_seams = 5}));
}

TEST(LostWords, WordsAreComparedAsTheNormaliserHasThem) {
  const Normalizer& normalizer = find_normalizer("basic_english", "test");
  const std::vector<TimedWord> whole = {{.text = "Well-known,", .start = 1, .end = 2},
                                        {.text = "-", .start = 2, .end = 2.1},
                                        {.text = "Mills.", .start = 2.1, .end = 3}};
  const auto words = normalized_words(whole, normalizer);
  ASSERT_EQ(words.size(), 3U);
  EXPECT_EQ(words[0].text, "well");
  EXPECT_EQ(words[1].text, "known");
  EXPECT_EQ(words[1].start, 1);
  EXPECT_EQ(words[2].text, "mills");
  const auto streamed = normalized_words({{.text = "well known mills"}}, normalizer);
  EXPECT_EQ(count_lost_words(words, streamed, {}).lost, 0);
}

TEST(LostWords, TheRecordHasTheShareOfAllWords) {
  LostWords sum{.words = 6, .at_seams = 2, .lost = 1};
  sum += {.words = 2, .at_seams = 0, .lost = 2, .lost_at_seams = 1};
  const record::LostWords field = lost_words_field(sum);
  EXPECT_EQ(field.words, 8);
  EXPECT_EQ(field.lost, 3);
  EXPECT_EQ(field.lost_at_seams, 1);
  EXPECT_EQ(static_cast<double>(*field.share_at_seams), 0.25);
  EXPECT_FALSE(lost_words_field({}).share_at_seams);
}

}  // namespace
}  // namespace rtfx
