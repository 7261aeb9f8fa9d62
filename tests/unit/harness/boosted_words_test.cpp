#include "harness/scoring/boosted_words.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/run/merge_shards.h"

namespace rtfx {
namespace {

using nlohmann::json;

const Normalizer& english() { return find_normalizer("basic_english", ""); }

/// Counts boosted words, after the scorer has normalized the texts and the list.
BoostedCounts count(const std::vector<std::string>& list, std::string_view reference,
                    std::string_view hypothesis) {
  return count_boosted(english().words(reference), english().words(hypothesis),
                       boosted_words(list, english()));
}

using Counts = BoostedCounts;

TEST(BoostedWordsTest, EveryOccurrenceCounts) {
  EXPECT_EQ(count({"a"}, "a b a c a", "a b x c a"),
            (Counts{.occurrences = 3, .recalled = 2, .false_alarms = 0}));
  EXPECT_EQ(count({"a", "c"}, "a b a c a", "a b a c a"), (Counts{.occurrences = 4, .recalled = 4}));
  EXPECT_EQ(count({"z"}, "a b a c a", "a b a c a"), Counts{});
}

TEST(BoostedWordsTest, DeletionsAreMissed) {
  EXPECT_EQ(count({"a", "b"}, "a b c", "c"), (Counts{.occurrences = 2}));
  EXPECT_EQ(count({"a"}, "a a", ""), (Counts{.occurrences = 2}));
}

TEST(BoostedWordsTest, InsertionsAreFalseAlarms) {
  EXPECT_EQ(count({"a"}, "a b", "a b a a"),
            (Counts{.occurrences = 1, .recalled = 1, .false_alarms = 2}));
  EXPECT_EQ(count({"a"}, "", "a x a"), (Counts{.false_alarms = 2}));
}

TEST(BoostedWordsTest, ABoostedWordInThePlaceOfAnotherIsMissAndFalseAlarm) {
  EXPECT_EQ(count({"a", "b"}, "x a y", "x b y"), (Counts{.occurrences = 1, .false_alarms = 1}));
  EXPECT_EQ(count({"b"}, "x a y", "x b y"), (Counts{.false_alarms = 1}));
  EXPECT_EQ(count({"a"}, "x a y", "x b y"), (Counts{.occurrences = 1}));
}

/// A word that is said at another place does not count where it is missing.
TEST(BoostedWordsTest, PlacesCountNotNumbers) {
  EXPECT_EQ(count({"a"}, "a b c d", "x b c a"), (Counts{.occurrences = 1, .false_alarms = 1}));
}

TEST(BoostedWordsTest, ListAndTextsAreNormalizedAlike) {
  EXPECT_EQ(count({"Don't", "THE", "the"}, "don't, The!", "DON'T the"),
            (Counts{.occurrences = 2, .recalled = 2}));
  const BoostedWords boosted = boosted_words({"The", "the", "twenty-one", "--"}, english());
  EXPECT_EQ(boosted.words, std::set<std::string>{"the"});
  EXPECT_EQ(boosted.left_out, 2);
  EXPECT_FALSE(boosted.empty());
  const BoostedWords as_it_is =
      boosted_words({"The", "the", "twenty-one"}, find_normalizer("none", ""));
  EXPECT_EQ(as_it_is.words, (std::set<std::string>{"The", "the", "twenty-one"}));
  EXPECT_EQ(as_it_is.left_out, 0);
  EXPECT_FALSE(boosted_words({"--"}, english()).empty());
  EXPECT_TRUE(boosted_words({}, english()).empty());
}

TEST(BoostedWordsTest, RecallAndPrecision) {
  const Counts counts{.occurrences = 8, .recalled = 6, .false_alarms = 2};
  EXPECT_EQ(counts.recall(), 0.75);
  EXPECT_EQ(counts.precision(), 0.75);
  EXPECT_EQ(Counts{.false_alarms = 3}.recall(), std::nullopt);
  EXPECT_EQ(Counts{.false_alarms = 3}.precision(), 0.0);
  EXPECT_EQ(Counts{.occurrences = 3}.precision(), std::nullopt);
  EXPECT_EQ(Counts{.occurrences = 3}.recall(), 0.0);
}

TEST(BoostedWordsTest, PhrasesByHand) {
  const auto phrases = [](const std::vector<std::string>& list, const std::string& said,
                          const std::string& heard) {
    const auto& n = english();
    return count_phrases(n.words(said), n.words(heard), boosted_words(list, n));
  };
  EXPECT_EQ(phrases({"a b", "b"}, "a b c", "a b c"), (Counts{.occurrences = 2, .recalled = 2}));
  EXPECT_EQ(phrases({"a b"}, "a x", "a b"), (Counts{.false_alarms = 1}));
  EXPECT_EQ(phrases({"a b"}, "a b", "a x b"), (Counts{.occurrences = 1, .recalled = 1}));
  EXPECT_EQ(phrases({"a", "b"}, "x a y", "x b y"), (Counts{.occurrences = 1}));
  EXPECT_EQ(f_score({.occurrences = 3, .recalled = 2, .false_alarms = 1}), 2.0 / 3);
  EXPECT_EQ(f_score({}), std::nullopt);
}

TEST(BoostedWordsTest, PhrasesAsNemoCountsThem) {
  std::ifstream file("tests/golden/data/boosting.json");
  ASSERT_TRUE(file);
  const json golden = json::parse(file).at("fscore");
  const Normalizer& as_it_is = find_normalizer("none", "");
  const BoostedWords list = boosted_words(golden.at("phrases"), as_it_is);
  Counts total;
  for (const json& line : golden.at("lines")) {
    total += count_phrases(as_it_is.words(line.at("text").get<std::string>()),
                           as_it_is.words(line.at("pred_text").get<std::string>()), list);
  }
  EXPECT_GT(total.false_alarms, 20);
  EXPECT_NEAR(*total.recall(), golden.at("recall").get<double>(), 1e-7);
  EXPECT_NEAR(*total.precision(), golden.at("precision").get<double>(), 1e-7);
  EXPECT_NEAR(*f_score(total), golden.at("f_score").get<double>(), 1e-7);
}

/// Returns one of two shards of a case. `boosted` is null for a journal that lacks it.
ResultSet shard_with(const json& boosted) {
  json record = {{"kind", "run"},
                 {"case", "m/d/x/b1/fp32"},
                 {"result_key", "k"},
                 {"round", 0},
                 {"dataset", {{"id", "d"}, {"utterances", 2}, {"audio_seconds", 10.0}}},
                 {"decoder", {{"id", "x"}}},
                 {"regions", {{"decode", {{"host_seconds", 1.0}}}}},
                 {"total_seconds", 2.0},
                 {"metrics", {{"rtfx.total", 5.0}, {"rtfx.decode", 10.0}}},
                 {"wer",
                  {{"wer", 0.5},
                   {"substitutions", 1},
                   {"insertions", 0},
                   {"deletions", 0},
                   {"reference_words", 2}}},
                 {"exactness", nullptr},
                 {"hypotheses_sha256", "h"},
                 {"tokens_sha256", "t"},
                 {"counters", json::object()}};
  if (!boosted.is_null()) record["boosted"] = boosted;
  ResultSet shard;
  shard.provenance.kind = "provenance";
  shard.provenance.provenance_id = "p";
  shard.cases.resize(1);
  const record::Run run = record::Run::table().read(record);
  shard.cases[0].summary.last = run;
  shard.cases[0].summary.rounds = {run};
  return shard;
}

TEST(BoostedWordsTest, ShardsAddUp) {
  const auto field = [](const Counts& counts) {
    return json{{"words", 5},
                {"left_out", 1},
                {"occurrences", counts.occurrences},
                {"recalled", counts.recalled},
                {"false_alarms", counts.false_alarms},
                {"recall", *counts.recall()},
                {"precision", *counts.precision()}};
  };
  const json first = field({.occurrences = 3, .recalled = 1, .false_alarms = 0});
  const json second = field({.occurrences = 1, .recalled = 1, .false_alarms = 2});
  const auto merged = [](const json& a, const json& b) {
    const record::Records records = merge_shards({shard_with(a), shard_with(b)});
    EXPECT_EQ(records.size(), 2U);
    return record::write(records.back());
  };
  EXPECT_EQ(merged(first, second)["boosted"],
            field({.occurrences = 4, .recalled = 2, .false_alarms = 2}));
  EXPECT_EQ(merged(first, nullptr)["boosted"], nullptr);
  EXPECT_FALSE(merged(nullptr, nullptr).contains("boosted"));
}

}  // namespace
}  // namespace rtfx
