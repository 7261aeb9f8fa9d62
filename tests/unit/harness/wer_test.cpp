#include "harness/scoring/wer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/files.h"
#include "harness/scoring/normalize.h"

namespace rtfx {
namespace {

std::vector<std::string> words(std::string_view text) {
  return find_normalizer("none", "").words(text);
}

EditCounts count(std::string_view reference, std::string_view hypothesis) {
  return count_edits(words(reference), words(hypothesis));
}

/// Returns the alignment as "a b>x c>* *>d".
std::string aligned(std::string_view reference, std::string_view hypothesis) {
  std::string text;
  for (const auto& [ref, hyp] : align_words(words(reference), words(hypothesis))) {
    if (!text.empty()) text += ' ';
    text += ref == hyp ? *ref : ref.value_or("*") + ">" + hyp.value_or("*");
  }
  return text;
}

TEST(CharacterErrors, AreTheFewestEdits) {
  const auto errors = [](const std::vector<std::string>& said,
                         const std::vector<std::string>& heard) {
    const EditCounts counts = count_edits_and_characters(said, heard);
    return std::pair(counts.character_errors, counts.reference_characters);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(errors({"kitten"}, {"sitting"}), Pair(3, 6));
  EXPECT_EQ(errors({"今天天气很好"}, {"今天天汽好"}), Pair(2, 6));
  EXPECT_EQ(errors({"a", "b"}, {"ab"}), Pair(0, 2));  // spaces do not count
  EXPECT_EQ(errors({}, {"abc"}), Pair(3, 0));
  EXPECT_EQ(errors({"abc"}, {}), Pair(3, 3));
  EXPECT_FALSE(count_edits_and_characters({}, {}).cer().has_value());
}

TEST(CharacterErrors, CountThoseOfScriptsWithoutSpaces) {
  const auto unspaced = [](const std::vector<std::string>& said) {
    return count_edits_and_characters(said, {}).unspaced_characters;
  };
  EXPECT_EQ(unspaced({"开灯"}), 2);
  EXPECT_EQ(unspaced({"ok", "テレビをつけて", "2"}), 7);
  EXPECT_EQ(unspaced({"สวัสดี"}), 6);
  EXPECT_EQ(unspaced({"안녕하세요", "straße", "привет"}), 0);  // Korean has spaces
}

TEST(CharacterErrors, EqualThoseOfTheTableOverAnyLengths) {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const auto letters = [&] {
      std::vector<std::string> all(std::uniform_int_distribution<size_t>(0, 200)(random));
      for (std::string& one : all) one = static_cast<char>('a' + random() % 4);
      return all;
    };
    // Each word has one letter, so the word errors are the character errors.
    const auto said = letters(), heard = letters();
    const EditCounts counts = count_edits_and_characters(said, heard);
    EXPECT_EQ(counts.character_errors, counts.errors()) << said.size() << " " << heard.size();
  }
}

using Counts = EditCounts;

TEST(WerTest, Examples) {
  EXPECT_EQ(count("the cat sat on the mat", "the cat sat mat"),
            (Counts{.deletions = 2, .reference_words = 6}));
  EXPECT_EQ(count("a b c d", "b c d e"),
            (Counts{.insertions = 1, .deletions = 1, .reference_words = 4}));
  EXPECT_EQ(count("he s here", "he is here now"),
            (Counts{.substitutions = 1, .insertions = 1, .reference_words = 3}));
}

TEST(WerTest, EmptySides) {
  EXPECT_EQ(count("", "two words"), (Counts{.insertions = 2}));
  EXPECT_EQ(count("two words", ""), (Counts{.deletions = 2, .reference_words = 2}));
  EXPECT_EQ(count("", ""), Counts{});
  EXPECT_EQ(aligned("", ""), "");
}

TEST(WerTest, NoReferenceWordsNoWer) {
  EXPECT_EQ(count("", "two words").wer(), std::nullopt);
  EXPECT_EQ(count("a b", "a x").wer(), 0.5);
  EXPECT_EQ(count("a", "b c d").wer(), 3.0);
  EXPECT_EQ((count("", "two words") + count("a b", "a b")).wer(), 1.0);
}

TEST(WerTest, OfEquallyManyErrorsTheFewestAreSubstitutions) {
  EXPECT_EQ(count("a b", "b a"), (Counts{.insertions = 1, .deletions = 1, .reference_words = 2}));
  EXPECT_EQ(count("a b", "c a"), (Counts{.insertions = 1, .deletions = 1, .reference_words = 2}));
  // Matching b would cost a fourth error.
  EXPECT_EQ(count("x y b", "b z w"), (Counts{.substitutions = 3, .reference_words = 3}));
}

TEST(WerTest, AlignmentTieGoesToPairThenDeletion) {
  EXPECT_EQ(aligned("a b", "x"), "a>* b>x");
  EXPECT_EQ(aligned("a", "x y"), "*>x a>y");
  EXPECT_EQ(aligned("a b", "b a"), "*>b a b>*");
}

TEST(WerTest, AlignmentShowsEachEdit) {
  EXPECT_EQ(aligned("the cat sat on the mat", "the cat sat mat"), "the cat sat on>* the>* mat");
  EXPECT_EQ(aligned("he s here", "he is here now"), "he s>is here *>now");
}

TEST(WerTest, AlignmentHasTheCountedEdits) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto sequence = [&] {
      std::vector<std::string> result(random() % 9);
      for (auto& word : result) word = static_cast<char>('a' + random() % 3);
      return result;
    };
    const auto reference = sequence();
    const auto hypothesis = sequence();
    Counts from_pairs;
    std::vector<std::string> references;
    std::vector<std::string> hypotheses;
    for (const auto& [ref, hyp] : align_words(reference, hypothesis)) {
      from_pairs.substitutions += ref && hyp && *ref != *hyp;
      from_pairs.deletions += !hyp;
      from_pairs.insertions += !ref;
      from_pairs.reference_words += ref.has_value();
      if (ref) references.push_back(*ref);
      if (hyp) hypotheses.push_back(*hyp);
    }
    EXPECT_EQ(references, reference);
    EXPECT_EQ(hypotheses, hypothesis);
    EXPECT_EQ(from_pairs, count_edits(reference, hypothesis));
  }
}

TEST(WerTest, LongTextsNeedLittleMemory) {
  std::vector<std::string> reference(20000, "a");
  std::vector<std::string> hypothesis(3000, "a");
  EXPECT_EQ(count_edits(reference, hypothesis),
            (Counts{.deletions = 17000, .reference_words = 20000}));
  EXPECT_EQ(align_words(reference, hypothesis).size(), reference.size());
}

std::map<std::string, std::string> read_tsv(const std::string& path) {
  std::map<std::string, std::string> texts;
  TextLines lines(path);
  for (std::string_view line; lines.next(line);) {
    const size_t tab = line.find('\t');
    texts[std::string(line.substr(0, tab))] = line.substr(tab + 1);
  }
  return texts;
}

TEST(WerTest, LibrispeechTestOther) {
  const auto references = read_tsv("tests/golden/data/scorer/ref.tsv.gz");
  const auto hypotheses = read_tsv("tests/golden/data/scorer/hyp.tsv.gz");
  ASSERT_EQ(references.size(), 2939U);
  ASSERT_EQ(hypotheses.size(), 2939U);
  const auto count = [&](const char* name) {
    const Normalizer& normalizer = find_normalizer(name, "test");
    Counts total;
    for (const auto& [id, text] : references) {
      total += count_edits(normalizer.words(text), normalizer.words(hypotheses.at(id)));
    }
    return total;
  };
  const Counts published{
      .substitutions = 3903, .insertions = 563, .deletions = 563, .reference_words = 52343};
  EXPECT_EQ(count("none"), published);
  EXPECT_EQ(count("basic_english"), published);
  EXPECT_EQ(published.errors(), 5029);
  // The packages whisper-normalizer 0.1.15 and kaldialign count as many errors.
  EXPECT_EQ(count("whisper_english").errors(), 5032);
  EXPECT_EQ(count("whisper_english").reference_words, 52884);
}

}  // namespace
}  // namespace rtfx
