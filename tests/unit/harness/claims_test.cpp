#include "harness/results/claims.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;

TEST(JudgeCaching, TheIntervalAgainstTheLimit) {
  EXPECT_EQ(judge_caching({1.0, 0.96, 1.04}).verdict, Verdict::pass);
  EXPECT_EQ(judge_caching({0.5, 0.4, 0.6}).verdict, Verdict::pass);
  EXPECT_EQ(judge_caching({1.2, 1.05, 1.4}).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge_caching({1.0, 0.7, 1.3}).verdict, Verdict::inconclusive);
  const Judgement caches = judge_caching({12.3, 9, 17});
  EXPECT_EQ(caches.verdict, Verdict::invalid);
  EXPECT_HAS(caches.reason, "12.3 times as fast");
}

/// A ratio that passes must not hide one whose interval holds the limit.
TEST(JudgeCaching, TheGraverOfBothRatiosIsShown) {
  const Interval passes{1.02, 1.0, 1.05}, holds{1.2, 0.95, 1.6}, caches{2, 1.5, 3};
  EXPECT_EQ(graver_ratio(passes, holds).high, holds.high);
  EXPECT_EQ(graver_ratio(holds, passes).high, holds.high);
  EXPECT_EQ(graver_ratio(caches, holds).low, caches.low);
  EXPECT_EQ(graver_ratio({0.9, 0.8, 1.0}, passes).low, passes.low);
}

class ClaimsTest : public test::TempFolder {
 protected:
  /// Returns a journal of one exact case with two rounds. `changes` merges into its records.
  ResultSet journal(const std::string& name, const json& changes = json::object(),
                    const json& provenance = json::object()) const {
    json head = {{"kind", "provenance"},
                 {"provenance_id", "p"},
                 {"config",
                  {{"protocol", {{"cv_max", 0.05}, {"measured_rounds", 2}}},
                   {"verify", {{"required", {{"fp32", "exact"}, {"bf16", "rounding"}}}}}}},
                 {"rtfx", {{"build_type", "Release"}, {"sanitizer", false}, {"revision", "r"}}},
                 {"device", {{"type", "cpu"}, {"name", "Some CPU"}}}};
    head.merge_patch(provenance);
    std::string lines = to_line(head);
    for (int round = 0; round < 2; ++round) {
      json record = {
          {"kind", "run"},
          {"provenance_id", "p"},
          {"case", "m/d/label/b1/bf16"},
          {"result_key", "k"},
          {"round", round},
          {"model", {{"id", "m"}}},
          {"dataset", {{"id", "d"}, {"utterances", 10}, {"audio_seconds", 100}}},
          {"decoder",
           {{"id", "label"}, {"name", "label"}, {"head", "transducer"}, {"exactness", "exact"}}},
          {"batch", {{"by", "count"}, {"size", 1}}},
          {"dtype", "bf16"},
          {"device", "cpu"},
          {"regions", {{"encoder", {{"host_seconds", 1}}}, {"decode", {{"host_seconds", 1}}}}},
          {"total_seconds", 2},
          {"metrics",
           {{"rtfx.total", 50},
            {"rtfx.encode_decode", nullptr},
            {"rtfx.decode", 100},
            {"share.decode", 0.5}}},
          {"wer",
           {{"normalizer", "none"},
            {"version", 1},
            {"wer", 0.1},
            {"substitutions", 1},
            {"deletions", 0},
            {"insertions", 0},
            {"reference_words", 10}}},
          {"exactness",
           {{"baseline", "frame"},
            {"grade", "bitwise"},
            {"grades", {{"bitwise", 10}}},
            {"first_difference", nullptr}}},
          {"deterministic", true},
          {"hypotheses_sha256", "h"},
          {"tokens_sha256", "t"}};
      record.merge_patch(changes);
      if (record["wer"]["reference_words"] == 0) record["wer"]["wer"] = nullptr;
      lines += to_line(record);
    }
    return read_results(write(name + "/journal.jsonl", lines));
  }

  /// Returns the verdict and the reason of the only row of a kind.
  static Judgement of(const std::vector<GateRow>& rows, const std::string& what) {
    for (const GateRow& row : rows)
      if (row.what == what) return {row.verdict, row.reason};
    ADD_FAILURE() << "no row " << what;
    return {Verdict::invalid, ""};
  }

  const json other_tokens_ = {{"hypotheses_sha256", "h1"}, {"tokens_sha256", "t1"}};
  const json elsewhere_ = {{"device", {{"name", "Another CPU"}}}};
};

TEST_F(ClaimsTest, AgreesWithItself) {
  const ResultSet claims = journal("a");
  EXPECT_TRUE(check_records(claims).empty());
  const auto rows = compare_claims(claims, journal("b"));
  for (const char* what : {"results", "grade", "wer"})
    EXPECT_EQ(of(rows, what).verdict, Verdict::pass);
  // Two rounds without any spread still have an interval, because runs differ.
  for (const char* what : {"rtfx.total", "rtfx.decode"})
    EXPECT_NE(of(rows, what).verdict, Verdict::invalid);
}

TEST_F(ClaimsTest, OtherTokensAreWrongHereAndJudgedByWordsElsewhere) {
  const ResultSet claims = journal("a");
  const ResultSet here = journal("b", other_tokens_),
                  there = journal("c", other_tokens_, elsewhere_);
  EXPECT_EQ(of(compare_claims(claims, here), "results").verdict, Verdict::correctness);
  auto rows = compare_claims(claims, there);
  EXPECT_EQ(of(rows, "results").verdict, Verdict::pass);
  EXPECT_HAS(of(rows, "case").reason, "other device/name: \"Some CPU\", now \"Another CPU\"");
  EXPECT_HAS(of(rows, "rtfx.total").reason, "not judged");
  json more_errors = other_tokens_;
  more_errors["wer"] = {{"wer", 0.102}};
  rows = compare_claims(claims, journal("d", more_errors, elsewhere_));
  EXPECT_EQ(of(rows, "wer").verdict, Verdict::correctness);
  json fewer_errors = other_tokens_;
  fewer_errors["wer"] = {{"wer", 0.098}};
  rows = compare_claims(claims, journal("e", fewer_errors, elsewhere_));
  EXPECT_EQ(of(rows, "wer").verdict, Verdict::correctness);
}

TEST_F(ClaimsTest, WithoutReferencesOtherTokensElsewhereAreInconclusive) {
  const json none = {{"wer", {{"reference_words", 0}, {"substitutions", 0}}}};
  json other = other_tokens_;
  other.merge_patch(none);
  const auto rows = compare_claims(journal("a", none), journal("b", other, elsewhere_));
  EXPECT_EQ(of(rows, "results").verdict, Verdict::inconclusive);
}

TEST_F(ClaimsTest, GradesMayDifferElsewhereUpToTheRequiredOne) {
  const auto graded = [](const char* grade) { return json{{"exactness", {{"grade", grade}}}}; };
  const ResultSet claims = journal("a");
  EXPECT_EQ(of(compare_claims(claims, journal("b", graded("exact"))), "grade").verdict,
            Verdict::correctness);
  EXPECT_EQ(
      of(compare_claims(claims, journal("c", graded("rounding"), elsewhere_)), "grade").verdict,
      Verdict::pass);
  EXPECT_EQ(of(compare_claims(claims, journal("d", graded("text"), elsewhere_)), "grade").verdict,
            Verdict::correctness);
}

TEST_F(ClaimsTest, AnotherVersionOfTheScorerIsNotCompared) {
  const json version = {{"wer", {{"version", 2}, {"wer", 0.2}, {"substitutions", 2}}}};
  const ResultSet claims = journal("a");
  EXPECT_EQ(of(compare_claims(claims, journal("b", version)), "wer").verdict, Verdict::pass);
  json other = other_tokens_;
  other.merge_patch(version);
  EXPECT_EQ(of(compare_claims(claims, journal("c", other, elsewhere_)), "wer").verdict,
            Verdict::inconclusive);
}

TEST_F(ClaimsTest, RecordsThatContradictThemselvesAreFound) {
  const auto reason = [&](const std::string& name, const json& changes) {
    const auto rows = check_records(journal(name, changes));
    return rows.size() == 1 ? rows.front().reason : std::to_string(rows.size()) + " rows";
  };
  EXPECT_HAS(reason("a", {{"wer", {{"wer", 0.05}}}}), "the WER is 0.05, and errors / words is 0.1");
  EXPECT_HAS(reason("b", {{"metrics", {{"rtfx.total", 60}}}}), "rtfx.total is 60");
  EXPECT_HAS(reason("c", {{"metrics", {{"rtfx.decode", 110}}}}), "rtfx.decode is 110");
  EXPECT_HAS(reason("d", {{"total_seconds", 1}, {"metrics", {{"rtfx.total", 100}}}}),
             "total_seconds is 1, and the sum of the regions is 2");
  EXPECT_HAS(reason("e", {{"metrics", {{"share.decode", 0.4}}}}),
             "share.decode is 0.4, and decode / total time is 0.5");
  const auto cer = [](double rate) {
    return json{{"wer", {{"cer", rate}, {"character_errors", 3}, {"reference_characters", 60}}}};
  };
  EXPECT_EQ(reason("f", cer(0.05)), "0 rows");
  EXPECT_HAS(reason("g", cer(0.04)), "the CER is 0.04, and errors / characters is 0.05");
  EXPECT_EQ(reason("h", {{"metrics", {{"tokens.per_second", 2.55}}}}), "0 rows");
  EXPECT_HAS(reason("i", {{"metrics", {{"tokens.per_second", 2.555}}}}), "255.50 tokens");
  const json no_time = {{"host_seconds", 0}};
  EXPECT_HAS(
      reason("j", {{"regions", {{"encoder", no_time}, {"decode", no_time}}}, {"total_seconds", 0}}),
      "rtfx.total is 50, and audio / seconds is inf");
  json empty = cer(0.05);
  empty["wer"]["reference_characters"] = 0;
  EXPECT_HAS(reason("k", empty), "the CER is 0.05, and the references are empty");
  ResultSet claims = journal("l", {{"wer", {{"reference_words", 0}}}});
  EXPECT_TRUE(check_records(claims).empty());
  for (record::Round& round : claims.cases.front().summary.rounds)
    std::get<record::Run>(round).wer.wer = Number(0.01);
  EXPECT_HAS(check_records(claims).front().reason, "the WER is 0.01, and the references are empty");
}

TEST_F(ClaimsTest, GradesWordsAndWallTimeAreThoseOfTheRecord) {
  const auto reason = [&](const std::string& name, const json& changes) {
    const auto rows = check_records(journal(name, changes));
    return rows.empty() ? "" : rows.front().reason;
  };
  const auto graded = [](const char* grade, const json& grades) {
    json exactness = {{"grade", grade}, {"grades", {{"bitwise", nullptr}}}};
    exactness["grades"].update(grades);
    return json{{"exactness", exactness}};
  };
  EXPECT_EQ(reason("a", graded("exact", {{"bitwise", 7}, {"exact", 3}, {"text", 0}})), "");
  EXPECT_HAS(reason("b", graded("bitwise", {{"different", 10}})),
             "exactness.grade is bitwise, and the worst grade of its utterances is different");
  EXPECT_HAS(reason("c", graded("bitwise", {{"bitwise", 9}})),
             "exactness.grades has 9 utterances, and dataset.utterances is 10");
  // Equal word errors of the set: the verdict asks for another grade, and nothing contradicts.
  EXPECT_EQ(reason("d", graded("wer", {{"bitwise", 7}, {"different", 3}})).find("contradict"),
            std::string::npos);
  EXPECT_HAS(reason("e", {{"isolated",
                           {{"grade", "bitwise"},
                            {"grades", {{"bitwise", 9}, {"text", 1}}},
                            {"first_difference",
                             {{"utterance", "u"},
                              {"frame", 0},
                              {"seconds", 0},
                              {"baseline_words", "a"},
                              {"words", "b"}}}}}}),
             "isolated.grade is bitwise");
  EXPECT_EQ(reason("f", {{"wall_seconds", 2.5}, {"gap_seconds", 0.5}}), "");
  EXPECT_HAS(reason("g", {{"wall_seconds", 0.2}, {"gap_seconds", -1.8}}),
             "wall_seconds is 0.2, less than total_seconds, 2");
  EXPECT_HAS(reason("h", {{"wall_seconds", 2.5}, {"gap_seconds", 0.1}}),
             "gap_seconds is 0.1, and wall_seconds - total_seconds is 0.5");
  const auto boosted = [](const char* key, const json& value) {
    json words = {{"occurrences", 100},
                  {"recalled", 76},
                  {"false_alarms", 24},
                  {"recall", 0.76},
                  {"precision", 0.76},
                  {"f_score", 0.5},
                  {"phrases",
                   {{"occurrences", 10},
                    {"recalled", 5},
                    {"false_alarms", 5},
                    {"recall", 0.5},
                    {"precision", 0.5}}}};
    words[key] = value;
    return json{{"boosted", words}};
  };
  EXPECT_EQ(reason("i", boosted("recall", 0.76)), "");
  for (const char* key : {"recall", "precision", "f_score"})
    EXPECT_HAS(reason("j", boosted(key, 0.999)), fmt::format("boosted.{} is 0.999", key));
  EXPECT_HAS(reason("k", boosted("occurrences", 0)), "recalled / occurrences divides by 0");
  const auto oracle = [](double rate) {
    return json{{"oracle_wer",
                 {{"wer", rate},
                  {"substitutions", 1},
                  {"insertions", 0},
                  {"deletions", 0},
                  {"reference_words", 20}}}};
  };
  EXPECT_EQ(reason("l", oracle(0.05)), "");
  EXPECT_HAS(reason("m", oracle(0.01)), "the oracle WER is 0.01, and errors / words is 0.05");
  const auto bound = [](const char* stage) {
    return json{{"bound_by", stage}, {"metrics", {{"busy.encoder", 0.8}, {"busy.decode", 0.3}}}};
  };
  EXPECT_EQ(reason("n", bound("encoder")), "");
  EXPECT_HAS(reason("o", bound("decode")), "bound_by is decode, and busy.encoder is 0.8");
}

TEST_F(ClaimsTest, AFailedReplayIsAFaultWhereTheRecordNamesNoDecision) {
  ResultSet claims = journal("a");
  record::Replay& replay = claims.cases.front().summary.replay.emplace();
  replay.decisions = 2422;
  replay.beyond = 3;
  const auto rows = check_records(claims);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().verdict, Verdict::correctness);
  EXPECT_HAS(rows.front().reason, "beyond rounding: 3 of 2422 decisions");
}

TEST_F(ClaimsTest, TimesOfBatchesAreThoseOfTheRound) {
  const auto reason = [&](const std::string& name, const json& changes) {
    json whole = {{"batches",
                   {{"audio_seconds", {60, 40}},
                    {"total_seconds", {1.2000004, 0.7999996}},
                    {"decode_seconds", {0.7, 0.3}}}},
                  {"metrics", {{"batch_ms.p50", 799.9995}, {"batch_ms.p95", nullptr}}}};
    whole.merge_patch(changes);
    const auto rows = check_records(journal(name, whole));
    return rows.empty() ? "" : rows.front().reason;
  };
  EXPECT_EQ(reason("a", {}), "");
  EXPECT_HAS(reason("b", {{"batches", {{"total_seconds", {1.2, 0.7}}}}}),
             "total_seconds is 2, and the sum of the batches is 1.9");
  EXPECT_HAS(reason("c", {{"batches", {{"decode_seconds", {0.7, 0.2}}}}}),
             "regions.decode is 1, and the sum of the batches is 0.9");
  EXPECT_HAS(reason("d", {{"batches", {{"audio_seconds", {60, 41}}}}}), "dataset.audio_seconds");
  EXPECT_HAS(reason("e", {{"batches", {{"decode_seconds", {1}}}}}), "differ in length");
  EXPECT_HAS(reason("f", {{"metrics", {{"batch_ms.p50", 400}}}}),
             "batch_ms.p50 is 400, and the percentile of the batches is 800");
  const json first = {{"first_pass",
                       {{"seconds", 4},
                        {"first_text_seconds", 0.5},
                        {"encoder", {{"launched", 0}, {"recorded", 0}, {"replayed", 0}}}}}};
  json times = first;
  times["metrics"] = {{"rtfx.first_pass", 25}, {"batch_ms.first", 500}};
  EXPECT_EQ(reason("g", times), "");
  times["metrics"] = {{"rtfx.first_pass", 25}, {"batch_ms.first", 50}};
  EXPECT_HAS(reason("h", times), "batch_ms.first is 50");
}

TEST_F(ClaimsTest, ARepeatedCaseHasTheSameTokensAndCharacterErrors) {
  const json figures = {
      {"wer", {{"cer", 0.05}, {"character_errors", 3}, {"reference_characters", 60}}},
      {"metrics", {{"tokens.per_second", 2}}}};
  const auto changed = [&](const json& changes) {
    json all = figures;
    all.merge_patch(changes);
    return all;
  };
  const ResultSet now = journal("now", figures);
  const auto rows = compare_claims(journal("a", figures), now);
  for (const char* what : {"results", "cer"}) EXPECT_EQ(of(rows, what).verdict, Verdict::pass);
  const auto judged = [&](const std::string& name, const json& changes, const char* what) {
    const Judgement found = of(compare_claims(journal(name, changed(changes)), now), what);
    EXPECT_EQ(found.verdict, Verdict::correctness);
    return found.reason;
  };
  EXPECT_HAS(judged("b", {{"tokens_sha256", "t1"}}, "results"), "has another tokens_sha256");
  EXPECT_HAS(judged("c", {{"metrics", {{"tokens.per_second", 3}}}}, "results"),
             "tokens.per_second is 2, not 3");
  EXPECT_HAS(judged("d", {{"wer", {{"cer", 0.04}}}}, "cer"), "points with the same tokens");
  EXPECT_HAS(judged("e", {{"wer", {{"substitutions", 0}, {"insertions", 1}}}}, "wer"),
             "the same tokens, and wer.substitutions is 1, not 0");
}

TEST_F(ClaimsTest, ARepeatedCaseHasTheSameBoostedAndOracleWords) {
  const auto counts = [](int64_t recalled, int64_t substitutions) {
    return json{
        {"boosted", {{"occurrences", 10}, {"recalled", recalled}, {"false_alarms", 0}}},
        {"oracle_wer", {{"substitutions", substitutions}, {"insertions", 0}, {"deletions", 0}}}};
  };
  const ResultSet now = journal("now", counts(5, 1));
  const auto judged = [&](const std::string& name, const json& changes) {
    return of(compare_claims(journal(name, changes), now), "results");
  };
  EXPECT_EQ(judged("a", counts(5, 1)).verdict, Verdict::pass);
  EXPECT_EQ(judged("b", counts(9, 1)).verdict, Verdict::correctness);
  EXPECT_HAS(judged("b", counts(9, 1)).reason, "boosted.recalled is 5, not 9");
  EXPECT_HAS(judged("c", counts(5, 0)).reason, "oracle_wer.substitutions is 1, not 0");
  // The hash of tokens says nothing about the other texts of a list.
  json other_lists = counts(5, 0);
  other_lists["hypotheses_sha256"] = "h1";
  EXPECT_EQ(judged("d", other_lists).verdict, Verdict::pass);
}

}  // namespace
}  // namespace rtfx
