#include "harness/cli/live_lines.h"

#include <gtest/gtest.h>

#include <sstream>

namespace rtfx {
namespace {

/// Returns words that each last half a second.
std::vector<TimedWord> words_of(const std::string& text) {
  std::vector<TimedWord> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const double start = 0.5 * static_cast<double>(words.size());
    words.push_back({.text = word, .start = start, .end = start + 0.5});
  }
  return words;
}

using Lines = std::vector<LiveLine>;

TEST(LiveLines, AnUtteranceHasALineForEachChangeAndOneAtItsEnd) {
  LiveLines lines;
  EXPECT_FALSE(lines.take_utterance("", false));
  EXPECT_TRUE(lines.take_utterance("a", false));
  EXPECT_FALSE(lines.take_utterance("a", false));
  EXPECT_TRUE(lines.take_utterance("a", true));
  EXPECT_TRUE(lines.take_utterance("a", false)) << "the next utterance has the same text";
}

TEST(LiveLines, AnUtteranceWhoseTextVanishesIsWithdrawn) {
  LiveLines lines;
  EXPECT_FALSE(lines.take_utterance("", true)) << "nobody has spoken";
  EXPECT_TRUE(lines.take_utterance("a", false));
  EXPECT_TRUE(lines.take_utterance("", true)) << "it vanishes at the end";
  EXPECT_TRUE(lines.take_utterance("a", false));
  EXPECT_TRUE(lines.take_utterance("", false)) << "it vanishes before the end";
  EXPECT_FALSE(lines.take_utterance("", true));
}

TEST(LiveLines, SettledWordsHaveAFinalLineAndOthersAreTentative) {
  LiveLines lines;
  EXPECT_EQ(lines.take_words(words_of("a b"), 0), (Lines{{false, 0, 1, "a b"}}));
  EXPECT_EQ(lines.take_words(words_of("a b"), 0), Lines());
  EXPECT_EQ(lines.take_words(words_of("a b c"), 2),
            (Lines{{true, 0, 1, "a b"}, {false, 1, 1.5, "c"}}));
  EXPECT_EQ(lines.settled(), 2U);
  EXPECT_EQ(lines.take_words(words_of("a b c"), 3), (Lines{{true, 1, 1.5, "c"}}));
  EXPECT_EQ(lines.take_words(words_of("a b c"), 3), Lines());
}

TEST(LiveLines, AWordThatIsSaidTwiceIsTentativeBehindItself) {
  LiveLines lines;
  EXPECT_EQ(lines.take_words(words_of("no no"), 1),
            (Lines{{true, 0, 0.5, "no"}, {false, 0.5, 1, "no"}}));
  EXPECT_EQ(lines.take_words(words_of("no no no"), 2),
            (Lines{{true, 0.5, 1, "no"}, {false, 1, 1.5, "no"}}));
}

TEST(LiveLines, TentativeWordsThatVanishAreWithdrawn) {
  LiveLines lines;
  EXPECT_EQ(lines.take_words(words_of("a b"), 1),
            (Lines{{true, 0, 0.5, "a"}, {false, 0.5, 1, "b"}}));
  EXPECT_EQ(lines.take_words(words_of("a"), 1), (Lines{{false, 0.5, 0.5, ""}}));
  EXPECT_EQ(lines.take_words(words_of("a"), 1), Lines());
  LiveLines others;
  EXPECT_EQ(others.take_words(words_of("a"), 0), (Lines{{false, 0, 0.5, "a"}}));
  EXPECT_EQ(others.take_words({}, 0), (Lines{{false, 0, 0, ""}}));
}

}  // namespace
}  // namespace rtfx
