#include "harness/results/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "harness/results/results.h"
#include "harness/results/summaries.h"
#include "tests/support/gzip.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::user_error;

class JournalTest : public test::TempFolder {
 protected:
  std::filesystem::path file() const { return path("run/journal.jsonl"); }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(file()).rdbuf();
    return out.str();
  }
};

TEST_F(JournalTest, WritesOneLinePerRecord) {
  Journal journal(path("run"), Journal::Mode::fresh);
  journal.append({{"a", 1}});
  journal.append({{"bad", std::numeric_limits<double>::quiet_NaN()}, {"name", "caf\xe9"}});
  journal.sync();
  EXPECT_EQ(text(), "{\"a\":1}\n{\"bad\":null,\"name\":\"caf\xEF\xBF\xBD\"}\n");
  EXPECT_EQ(read_journal(file()).size(), 2U);
}

TEST_F(JournalTest, TornLastLineIsIgnoredThenCutOff) {
  write("run/journal.jsonl", "{\"a\":1}\n{\"b\":");
  EXPECT_EQ(read_journal(file()), std::vector<json>({{{"a", 1}}}));
  Journal(path("run"), Journal::Mode::resume).append({{"c", 3}});
  EXPECT_EQ(text(), "{\"a\":1}\n{\"c\":3}\n");
}

TEST_F(JournalTest, DamageInTheMiddleIsNamedWithItsLine) {
  write("run/journal.jsonl", "{\"a\":1}\n{\"b\":\n{\"c\":3}\n");
  EXPECT_HAS(user_error([&] { read_journal(file()); }),
             "journal.jsonl:2: not JSON: line 1, column 6");
}

TEST_F(JournalTest, GzipIsReadWithOrWithoutItsEnding) {
  const std::vector<json> records = {{{"a", 1}}, {{"b", 2}}};
  const std::string packed = test::gzip("{\"a\":1}\n{\"b\":2}\n");
  write("ci.jsonl.gz", packed);
  EXPECT_EQ(read_journal(path("ci.jsonl.gz")), records);
  EXPECT_EQ(read_journal(path("ci.jsonl")), records);
  EXPECT_EQ(journal_of(path("ci.jsonl")), path("ci.jsonl.gz"));
  write("run/journal.jsonl.gz", packed);
  EXPECT_EQ(journal_of(path("run")), path("run/journal.jsonl.gz"));
  write("ci.jsonl", "{\"a\":1}\n");
  EXPECT_EQ(read_journal(path("ci.jsonl")).size(), 1U);  // where both exist, the plain one
  write("ci.jsonl.gz", packed.substr(0, packed.size() - 12));
  EXPECT_HAS(user_error([&] { read_journal(path("ci.jsonl.gz")); }), "ci.jsonl.gz: truncated gzip");
}

TEST_F(JournalTest, LargeGzipIsReadWhole) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += to_line({{"number", i}, {"half", i / 2}});
  write("large.jsonl.gz", test::gzip(text));
  const std::vector<json> records = read_journal(path("large.jsonl"));
  ASSERT_EQ(records.size(), 100'000U);
  EXPECT_EQ(records.back()["number"], 99'999);
}

TEST(JournalName, LacksBothEndings) {
  EXPECT_EQ(journal_name("runs/a/journal.jsonl"), "journal");
  EXPECT_EQ(journal_name("reports/nemo3.0.jsonl.gz"), "nemo3.0");
}

TEST_F(JournalTest, EarlierRunsAreNeverOverwritten) {
  Journal(path("run"), Journal::Mode::fresh).append({{"a", 1}});
  const std::string message = user_error([&] { Journal(path("run"), Journal::Mode::fresh); });
  for (const char* part : {"journal.jsonl", "--resume", "--force"}) EXPECT_HAS(message, part);
  Journal(path("run"), Journal::Mode::force).append({{"b", 2}});
  EXPECT_EQ(text(), "{\"b\":2}\n");
  EXPECT_EQ(read_journal(path("run/journal.jsonl.1")), std::vector<json>({{{"a", 1}}}));
}

TEST_F(JournalTest, APackedRunIsNotHiddenByANewOne) {
  write("run/journal.jsonl.gz", test::gzip("{\"a\":1}\n"));
  for (const auto mode : {Journal::Mode::fresh, Journal::Mode::resume, Journal::Mode::force}) {
    EXPECT_HAS(user_error([&] { Journal(path("run"), mode); }),
               "journal.jsonl.gz: holds an earlier run, packed");
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(read_journal(file()), std::vector<json>({{{"a", 1}}}));
}

TEST_F(JournalTest, BelongsToOneProcessAtATime) {
  // Locks are between openings of the file, so that a second one here is as one of another process.
  {
    Journal journal(path("run"), Journal::Mode::fresh);
    journal.append({{"a", 1}});
    for (const auto mode : {Journal::Mode::resume, Journal::Mode::force, Journal::Mode::fresh}) {
      EXPECT_HAS(user_error([&] { Journal(path("run"), mode); }),
                 "is being written by another process");
    }
    Journal(path("run"), Journal::Mode::child).append({{"b", 2}});
    journal.append({{"c", 3}});
  }
  Journal(path("run"), Journal::Mode::resume).append({{"d", 4}});
  EXPECT_EQ(text(), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n");
  Journal forced(path("run"), Journal::Mode::force);
  EXPECT_HAS(user_error([&] { Journal(path("run"), Journal::Mode::resume); }),
             "is being written by another process");
}

TEST_F(JournalTest, IsNoDevice) {
  std::filesystem::create_directories(path("run"));
  std::filesystem::create_symlink("/dev/null", file());
  EXPECT_HAS(user_error([&] { Journal(path("run"), Journal::Mode::resume); }), "is a device");
}

TEST_F(JournalTest, PartialWriteLeavesEarlierRecordsWhole) {
  Journal journal(path("run"), Journal::Mode::fresh);
  journal.append({{"a", 1}});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = user_error([&] {
    journal.append({{"long", std::string(100, 'x')}});
  });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  for (const char* part : {"File too large", "--resume"}) EXPECT_HAS(message, part);
  EXPECT_EQ(text(), "{\"a\":1}\n");
}

json run_record(const char* name, int round, double total, const char* grade,
                const char* key = "k") {
  return {{"kind", "run"},
          {"case", name},
          {"round", round},
          {"result_key", key},
          {"metrics", {{"rtfx.total", total}, {"rtfx.decode", nullptr}}},
          {"deterministic", true},
          {"exactness", {{"grade", grade}, {"first_difference", grade}}}};
}

TEST(Summaries, TakeTheWorstVerdictAndAllRounds) {
  const auto cases =
      summarize_cases({run_record("c", 0, 10, "bitwise"), run_record("c", 1, 12, "rounding"),
                       run_record("c", 2, 11, "exact")});
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].grade, "rounding");
  EXPECT_EQ(cases[0].first_difference, "rounding");
  EXPECT_EQ(cases[0].values("rtfx.total"), (std::vector<double>{10, 12, 11}));
  EXPECT_TRUE(cases[0].values("rtfx.decode").empty());
  EXPECT_TRUE(cases[0].noisy());
}

json protocol_record(double cv_max) {
  return {{"kind", "provenance"}, {"config", {{"protocol", {{"cv_max", cv_max}}}}}};
}

TEST(Summaries, NoisyIsByTheLastProvenance) {
  const std::vector<json> records = {protocol_record(0.01), protocol_record(0.1),
                                     run_record("c", 0, 10, "rounding"),
                                     run_record("c", 1, 11, "rounding")};
  EXPECT_FALSE(summarize_cases(records)[0].noisy());
  EXPECT_TRUE(summarize_cases({records[0], records[2], records[3]})[0].noisy());
}

TEST(Summaries, MarksSayWhatTheFiguresHide) {
  std::vector<json> records = {run_record("c", 0, 10, "rounding"),
                               run_record("c", 1, 20, "rounding")};
  records[0]["deterministic"] = false;
  records[1]["suspect"] = {"cpu_wait"};
  records[1]["stable"] = false;
  const std::vector<std::string> all = {"NONDETERMINISTIC", "NOISY", "OVERLOADED", "suspect 1/2"};
  EXPECT_EQ(summarize_cases(records)[0].marks(), all);
  EXPECT_TRUE(summarize_cases({run_record("c", 0, 10, "rounding")})[0].marks().empty());
}

TEST(Summaries, TimeThatNoRegionCountsIsMarkedBeyondTwoPercent) {
  std::vector<json> records = {run_record("c", 0, 10, "rounding"),
                               run_record("c", 1, 10, "rounding")};
  EXPECT_FALSE(summarize_cases(records)[0].gaps());  // of an earlier release
  for (json& record : records) record.update({{"total_seconds", 0.981}, {"wall_seconds", 1.0}});
  EXPECT_TRUE(summarize_cases(records)[0].marks().empty());
  records[1]["wall_seconds"] = 1.04;
  const CaseSummary summary = summarize_cases(records)[0];
  EXPECT_NEAR(*summary.gaps(), 0.078 / 2.04, 1e-9);
  EXPECT_EQ(summary.marks(), std::vector<std::string>({"gaps 3.8 %"}));
  EXPECT_EQ(meanings_of_marks({summary})[0].first, "gaps");
}

TEST(Summaries, SuspectRoundsSayWhyAndWhatItMeans) {
  std::vector<json> records = {run_record("c", 0, 10, "rounding"),
                               run_record("c", 1, 10, "rounding"),
                               run_record("c", 2, 10, "rounding")};
  EXPECT_FALSE(summarize_cases(records)[0].suspect_share());  // of an earlier release
  for (json& record : records) record["suspect"] = json::array();
  records[0]["suspect"] = {"cpu_wait"};
  records[2]["suspect"] = {"cpu_wait", "sw_power_cap"};
  const CaseSummary summary = summarize_cases(records)[0];
  EXPECT_DOUBLE_EQ(*summary.suspect_share(), 2.0 / 3);
  EXPECT_EQ(summary.suspect_reasons(),
            (std::map<std::string, int64_t>{{"cpu_wait", 2}, {"sw_power_cap", 1}}));
  const Meanings meanings = meanings_of_marks({summary});
  ASSERT_EQ(meanings.size(), 1U);
  EXPECT_HAS(meanings[0].second, "cpu_wait: threads waited for a CPU");
  EXPECT_HAS(meanings[0].second, "sw_power_cap: its power limit");
  EXPECT_EQ(summaries_json(records)["mark_meanings"]["suspect"], meanings[0].second);
}

/// The stand-in that cases of dataset "d" name, with these fields of record and provenance.
std::string stand_in(const json& of_record, const json& of_provenance) {
  json record = run_record("c", 0, 10, "rounding");
  record["provenance_id"] = "p";
  record["dataset"] = {{"id", "d"}};
  record["dataset"].update(of_record);
  json dataset = {{"id", "d"}};
  dataset.update(of_provenance);
  const json other = {{"id", "other"}, {"stand_in", "another set's"}};
  const json provenance = {
      {"kind", "provenance"}, {"provenance_id", "p"}, {"datasets", {other, dataset}}};
  const CaseSummary summary = summarize_cases({provenance, record})[0];
  const auto marks = summary.marks();
  EXPECT_EQ(summary.stand_in_data.empty(),
            std::find(marks.begin(), marks.end(), "stand-in data") == marks.end());
  return summary.stand_in_data;
}

TEST(Summaries, StandInDataAreMarkedInOldJournalsToo) {
  EXPECT_EQ(stand_in({{"stand_in", "spoken"}}, {{"stand_in", "spoken"}}), "spoken");
  EXPECT_EQ(stand_in({{"stand_in", nullptr}}, json::object()), "");
  // Journals of earlier releases.
  EXPECT_EQ(stand_in(json::object(), {{"sha256", "s"}}), "");
  EXPECT_EQ(stand_in(json::object(), {{"sha256", "s"}, {"stand_in", "an4.jsonl"}}), "an4.jsonl");
  const char* spoken = "daef6fd777a6f71cec0eeae76f2bbe00f31d00c8a4118b1e837c8b985b8b82e4";
  EXPECT_EQ(stand_in(json::object(), {{"sha256", spoken}}),
            "espeak-ng speech of LibriSpeech test-other's transcripts");
  EXPECT_HAS(stand_in(json::object(), {{"sha256", spoken}, {"stand_in", "m.jsonl"}}),
             "m.jsonl: espeak-ng");
}

TEST(Summaries, RandomWeightsAreMarked) {
  json record = run_record("c", 0, 10, "rounding");
  record["model"] = {{"id", "m"}, {"weights", "synthetic"}};
  const std::vector<std::string> marks = {"random encoder + stand-in decoder"};
  EXPECT_EQ(summarize_cases({record})[0].marks(), marks);
}

TEST(Summaries, StandInModelsAreMarked) {
  json record = run_record("c", 0, 10, "rounding");
  record["model"] = {{"id", "m"}, {"stand_in", "small.nemo widened"}};
  EXPECT_EQ(summarize_cases({record})[0].marks(), std::vector<std::string>{"stand-in model"});
  record["model"]["stand_in"] = nullptr;
  EXPECT_TRUE(summarize_cases({record})[0].marks().empty());
}

TEST(Summaries, ADecoderWithoutWordsShowsNothingOfThem) {
  json record = run_record("c", 0, 10, "rounding");
  record["metrics"]["rtfx.decode"] = 741579;
  record["wer"] = {{"wer", 1.0}};
  EXPECT_EQ(summarize_cases({record})[0].values("rtfx.decode").size(), 1U);
  EXPECT_EQ(summarize_cases({record})[0].word_errors()["wer"], 1.0);
  record["decoder"] = {{"head", "none"}};
  const CaseSummary summary = summarize_cases({record})[0];
  EXPECT_EQ(summary.values("rtfx.total").size(), 1U);
  EXPECT_TRUE(summary.values("rtfx.decode").empty());
  EXPECT_TRUE(summary.word_errors().is_null());
  EXPECT_FALSE(summaries_json({record})["cases"][0]["metrics"].contains("rtfx.decode"));
}

TEST(Summaries, OnlyTheNewestKeyOfACaseCounts) {
  const auto cases = summarize_cases(
      {run_record("c", 0, 10, "different", "old"), run_record("c", 0, 20, "exact", "new")});
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].grade, "exact");
  EXPECT_EQ(cases[0].values("rtfx.total"), std::vector<double>{20});
}

TEST(Summaries, AFailureCountsUntilALaterRunSucceeds) {
  const json failure = {{"kind", "failure"},
                        {"case", "c"},
                        {"result_key", "k"},
                        {"stage", "decode"},
                        {"message", "oops"}};
  EXPECT_EQ(summarize_cases({run_record("c", 0, 10, "exact"), failure})[0].failure, "decode: oops");
  EXPECT_FALSE(summarize_cases({failure, run_record("c", 0, 10, "exact")})[0].failure);
}

TEST(Summaries, RoundsBeforeAFailureCountOnceALaterOneHasSucceeded) {
  const json failure = {{"kind", "failure"}, {"case", "c"}, {"result_key", "k"}};
  std::vector<json> records = {run_record("c", 0, 60, "rounding"), failure};
  EXPECT_TRUE(summarize_cases(records)[0].rounds.empty());
  EXPECT_EQ(summarize_cases(records)[0].grade, "");
  records.push_back(run_record("c", 1, 240, "exact"));
  const CaseSummary summary = summarize_cases(records)[0];
  EXPECT_EQ(summary.values("rtfx.total"), (std::vector<double>{60, 240}));
  EXPECT_EQ(summary.grade, "rounding");
  const json listed = summaries_json(records)["cases"][0];
  EXPECT_EQ(listed["metrics"]["rtfx.total"]["mean"], 150);
  EXPECT_EQ(listed["worst_round"], 0);
  EXPECT_EQ(listed["noisy"], true);
}

}  // namespace
}  // namespace rtfx
