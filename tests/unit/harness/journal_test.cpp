#include "harness/results/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "harness/report/export.h"
#include "harness/results/results.h"
#include "harness/results/summaries.h"
#include "tests/support/gzip.h"
#include "tests/support/records.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::read_objects;
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
  EXPECT_EQ(read_objects(file()), std::vector<json>({{{"a", 1}}}));
  Journal(path("run"), Journal::Mode::resume).append({{"c", 3}});
  EXPECT_EQ(text(), "{\"a\":1}\n{\"c\":3}\n");
}

TEST_F(JournalTest, TornLastLineIsCutOffBehindAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  write("run/journal.jsonl", mark + "{\"a\":1}\n{\"b\":");
  Journal(path("run"), Journal::Mode::resume).append({{"c", 3}});
  EXPECT_EQ(text(), mark + "{\"a\":1}\n{\"c\":3}\n");
  EXPECT_EQ(read_objects(file()), std::vector<json>({{{"a", 1}}, {{"c", 3}}}));
}

TEST_F(JournalTest, AWholeLastLineWithoutItsLineBreakIsKept) {
  write("run/journal.jsonl", "{\"a\":1}\n{\"b\":2}");
  EXPECT_EQ(read_objects(file()), std::vector<json>({{{"a", 1}}, {{"b", 2}}}));
  Journal(path("run"), Journal::Mode::resume).append({{"c", 3}});
  EXPECT_EQ(text(), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
}

TEST_F(JournalTest, NothingIsAppendedToAPackedFileWithoutItsEnding) {
  const std::string packed = test::gzip("{\"a\":1}\n{\"b\":2}\n");
  write("run/journal.jsonl", packed);
  EXPECT_EQ(read_objects(file()).size(), 2U);
  EXPECT_HAS(user_error([&] { Journal(path("run"), Journal::Mode::resume); }),
             "journal.jsonl: holds an earlier run, packed; rename it to journal.jsonl.gz");
  EXPECT_EQ(text(), packed);
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
  EXPECT_EQ(read_objects(path("ci.jsonl.gz")), records);
  EXPECT_EQ(read_objects(path("ci.jsonl")), records);
  EXPECT_EQ(journal_of(path("ci.jsonl")), path("ci.jsonl.gz"));
  write("run/journal.jsonl.gz", packed);
  EXPECT_EQ(journal_of(path("run")), path("run/journal.jsonl.gz"));
  write("ci.jsonl", "{\"a\":1}\n");
  EXPECT_EQ(read_journal(path("ci.jsonl")).size(), 1U);  // the plain file goes first
  write("ci.jsonl.gz", packed.substr(0, packed.size() - 12));
  const std::string problem = user_error([&] { read_journal(path("ci.jsonl.gz")); });
  for (const char* part : {"ci.jsonl.gz:", ": truncated gzip"}) EXPECT_HAS(problem, part);
}

TEST_F(JournalTest, LargeGzipIsReadWhole) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += to_line({{"number", i}, {"half", i / 2}});
  write("large.jsonl.gz", test::gzip(text));
  const std::vector<json> records = read_objects(path("large.jsonl"));
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
  EXPECT_EQ(read_objects(path("run/journal.jsonl.1")), std::vector<json>({{{"a", 1}}}));
}

TEST_F(JournalTest, APackedRunIsNotHiddenByANewOne) {
  write("run/journal.jsonl.gz", test::gzip("{\"a\":1}\n"));
  for (const auto mode : {Journal::Mode::fresh, Journal::Mode::resume, Journal::Mode::force}) {
    EXPECT_HAS(user_error([&] { Journal(path("run"), mode); }),
               "journal.jsonl.gz: holds an earlier run, packed");
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(read_objects(file()), std::vector<json>({{{"a", 1}}}));
}

TEST_F(JournalTest, BelongsToOneProcessAtATime) {
  // A lock belongs to one opening of the file, so a second opening here acts as another process.
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

/// Returns the error of a record that does not fit on the disk.
std::string error_of_a_full_disk(Journal& journal) {
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
  return message;
}

TEST_F(JournalTest, PartialWriteLeavesEarlierRecordsWhole) {
  Journal journal(path("run"), Journal::Mode::fresh);
  journal.append({{"a", 1}});
  const std::string message = error_of_a_full_disk(journal);
  for (const char* part : {"File too large", "--resume"}) EXPECT_HAS(message, part);
  EXPECT_EQ(text(), "{\"a\":1}\n");
}

TEST_F(JournalTest, NamesResumeOnlyWhereTheCommandHasIt) {
  Journal journal(path("run"), Journal::Mode::force, "profile.jsonl", /*resumable=*/false);
  const std::string message = error_of_a_full_disk(journal);
  EXPECT_HAS(message, "free some space and start again");
  EXPECT_EQ(message.find("--resume"), std::string::npos);
}

record::Run run_record(const char* name, int round, double total, const char* grade,
                       const char* key = "k") {
  record::Run run;
  run.kind = "run";
  run.case_name = name;
  run.round = round;
  run.result_key = key;
  run.decoder.head = "transducer";
  run.metrics = {{"rtfx.total", Number(total)}, {"rtfx.decode", std::nullopt}};
  run.deterministic = true;
  run.exactness.emplace();
  run.exactness->grade = grade;
  run.exactness->first_difference.emplace();
  run.exactness->first_difference->words = grade;
  return run;
}

record::Failure failure_record(const char* name) {
  record::Failure failure;
  failure.kind = "failure";
  failure.case_name = name;
  failure.result_key = "k";
  failure.stage = "decode";
  failure.message = "oops";
  return failure;
}

TEST(Summaries, TakeTheWorstVerdictAndAllRounds) {
  const auto cases =
      summarize_cases({run_record("c", 0, 10, "bitwise"), run_record("c", 1, 12, "rounding"),
                       run_record("c", 2, 11, "exact")});
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].grade, "rounding");
  EXPECT_EQ(cases[0].first_difference->words, "rounding");
  EXPECT_EQ(cases[0].values("rtfx.total"), (std::vector<double>{10, 12, 11}));
  EXPECT_TRUE(cases[0].values("rtfx.decode").empty());
  EXPECT_TRUE(cases[0].noisy());
}

record::Provenance protocol_record(double cv_max) {
  record::Provenance provenance;
  provenance.kind = "provenance";
  provenance.config = OptionTree(json{{"protocol", {{"cv_max", cv_max}}}});
  return provenance;
}

TEST(Summaries, NoisyIsByTheLastProvenance) {
  const record::Run first = run_record("c", 0, 10, "rounding");
  const record::Run second = run_record("c", 1, 11, "rounding");
  EXPECT_FALSE(
      summarize_cases({protocol_record(0.01), protocol_record(0.1), first, second})[0].noisy());
  EXPECT_TRUE(summarize_cases({protocol_record(0.01), first, second})[0].noisy());
}

TEST(Summaries, TheRequiredGradeIsThatOfTheDecodersDtype) {
  record::Provenance provenance = protocol_record(0.05);
  provenance.config = OptionTree(
      json{{"verify", {{"required", {{"fp32", "exact"}, {"bf16", "text"}, {"fp16", "wer"}}}}}});
  for (const auto& [dtype, grade] : {std::pair("fp32", Grade::exact),
                                     {"bf16", Grade::text},
                                     {"fp8", Grade::text},
                                     {"bf16+fp32", Grade::exact},
                                     {"fp8+fp16", Grade::wer},
                                     {"fp64", Grade::different}}) {
    record::Run run = run_record("c", 0, 10, "rounding");
    run.dtype = std::string(dtype);
    EXPECT_EQ(summarize_cases({provenance, run})[0].required, grade) << dtype;
  }
}

TEST(Summaries, MarksSayWhatTheFiguresHide) {
  record::Run first = run_record("c", 0, 10, "rounding");
  record::Run second = run_record("c", 1, 20, "rounding");
  first.deterministic = false;
  first.all_empty = true;
  second.suspect = std::vector<std::string>{"cpu_wait"};
  const std::vector<std::string> all = {"NONDETERMINISTIC", "NOISY", "EMPTY", "suspect 1/2"};
  EXPECT_EQ(summarize_cases({first, second})[0].marks(), all);
  EXPECT_TRUE(summarize_cases({run_record("c", 0, 10, "rounding")})[0].marks().empty());
  record::StreamRun stream;
  stream.case_name = "s";
  EXPECT_EQ(summarize({stream})[0].marks(), std::vector<std::string>({"OVERLOADED"}));
}

TEST(Summaries, TimeThatNoRegionCountsIsMarkedBeyondTwoPercent) {
  std::vector<record::Run> rounds = {run_record("c", 0, 10, "rounding"),
                                     run_record("c", 1, 10, "rounding")};
  EXPECT_FALSE(summarize_cases({rounds[0], rounds[1]})[0].gaps());  // unknown in earlier releases
  for (record::Run& round : rounds) {
    round.total_seconds = 0.981;
    round.wall_seconds = Number(1.0);
  }
  EXPECT_TRUE(summarize_cases({rounds[0], rounds[1]})[0].marks().empty());
  rounds[1].wall_seconds = Number(1.04);
  const CaseSummary summary = summarize_cases({rounds[0], rounds[1]})[0];
  EXPECT_NEAR(*summary.gaps(), 0.078 / 2.04, 1e-9);
  EXPECT_EQ(summary.marks(), std::vector<std::string>({"gaps 3.8 %"}));
  EXPECT_EQ(meanings_of_marks({summary})[0].first, "gaps");
}

TEST(Summaries, SuspectRoundsSayWhyAndWhatItMeans) {
  std::vector<record::Run> rounds;
  for (const int round : {0, 1, 2}) rounds.push_back(run_record("c", round, 10, "rounding"));
  const auto all = [&] { return record::Records{rounds[0], rounds[1], rounds[2]}; };
  EXPECT_FALSE(summarize_cases(all())[0].suspect_share());  // unknown in earlier releases
  rounds[0].suspect = std::vector<std::string>{"cpu_wait"};
  rounds[1].suspect = std::vector<std::string>();
  rounds[2].suspect = std::vector<std::string>{"cpu_wait", "sw_power_cap"};
  const CaseSummary summary = summarize_cases(all())[0];
  EXPECT_DOUBLE_EQ(*summary.suspect_share(), 2.0 / 3);
  EXPECT_EQ(summary.suspect_reasons(),
            (std::map<std::string, int64_t>{{"cpu_wait", 2}, {"sw_power_cap", 1}}));
  const Meanings meanings = meanings_of_marks({summary});
  ASSERT_EQ(meanings.size(), 1U);
  EXPECT_HAS(meanings[0].second, "cpu_wait: threads waited for a CPU");
  EXPECT_HAS(meanings[0].second, "sw_power_cap: its power limit");
}

/// Returns the stand-in of cases of dataset "d" that have these fields in record and provenance.
std::string stand_in(const json& of_record, const json& of_provenance) {
  record::Run run = run_record("c", 0, 10, "rounding");
  run.provenance_id = "p";
  json dataset = {{"id", "d"}};
  dataset.update(of_record);
  run.dataset = record::Dataset<record::Always>::table().read(dataset);
  dataset = {{"id", "d"}};
  dataset.update(of_provenance);
  const json other = {{"id", "other"}, {"stand_in", "another set's"}};
  const record::Any provenance = record::read(
      {{"kind", "provenance"}, {"provenance_id", "p"}, {"datasets", {other, dataset}}});
  const CaseSummary summary = summarize_cases({provenance, run})[0];
  const auto marks = summary.marks();
  EXPECT_EQ(summary.stand_in_data.empty(),
            std::find(marks.begin(), marks.end(), "stand-in data") == marks.end());
  return summary.stand_in_data;
}

TEST(Summaries, StandInDataAreMarkedInOldJournalsToo) {
  EXPECT_EQ(stand_in({{"stand_in", "spoken"}}, {{"stand_in", "spoken"}}), "spoken");
  EXPECT_EQ(stand_in({{"stand_in", nullptr}}, json::object()), "");
  // Journals of earlier releases have no stand-in in the record.
  EXPECT_EQ(stand_in(json::object(), {{"sha256", "s"}}), "");
  EXPECT_EQ(stand_in(json::object(), {{"sha256", "s"}, {"stand_in", "an4.jsonl"}}), "an4.jsonl");
  const char* spoken = "daef6fd777a6f71cec0eeae76f2bbe00f31d00c8a4118b1e837c8b985b8b82e4";
  EXPECT_EQ(stand_in(json::object(), {{"sha256", spoken}}),
            "espeak-ng speech of LibriSpeech test-other's transcripts");
  EXPECT_HAS(stand_in(json::object(), {{"sha256", spoken}, {"stand_in", "m.jsonl"}}),
             "m.jsonl: espeak-ng");
}

TEST(Summaries, StandInModelsAreMarked) {
  record::Run run = run_record("c", 0, 10, "rounding");
  run.model.stand_in = "small.nemo widened";
  EXPECT_EQ(summarize_cases({run})[0].marks(), std::vector<std::string>{"stand-in model"});
  run.model.stand_in = std::nullopt;
  EXPECT_TRUE(summarize_cases({run})[0].marks().empty());
}

TEST(Summaries, ADecoderWithoutWordsShowsNothingOfThem) {
  record::Run run = run_record("c", 0, 10, "rounding");
  run.metrics["rtfx.decode"] = Number(741579);
  run.wer.wer = Number(1.0);
  EXPECT_EQ(summarize_cases({run})[0].values("rtfx.decode").size(), 1U);
  EXPECT_EQ(*summarize_cases({run})[0].word_errors()->wer, 1.0);
  run.decoder.head = "none";
  const CaseSummary summary = summarize_cases({run})[0];
  EXPECT_EQ(summary.values("rtfx.total").size(), 1U);
  EXPECT_TRUE(summary.values("rtfx.decode").empty());
  EXPECT_EQ(summary.word_errors(), nullptr);
  EXPECT_FALSE(summary_json(summary)["metrics"].contains("rtfx.decode"));
}

TEST(Summaries, OnlyTheNewestKeyOfACaseCounts) {
  const auto cases = summarize_cases(
      {run_record("c", 0, 10, "different", "old"), run_record("c", 0, 20, "exact", "new")});
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].grade, "exact");
  EXPECT_EQ(cases[0].values("rtfx.total"), std::vector<double>{20});
}

TEST(Summaries, AFailureCountsUntilALaterRunSucceeds) {
  const record::Run run = run_record("c", 0, 10, "exact");
  EXPECT_EQ(summarize_cases({run, failure_record("c")})[0].failure, "decode: oops");
  EXPECT_FALSE(summarize_cases({failure_record("c"), run})[0].failure);
}

TEST(Summaries, RoundsBeforeAFailureCountOnceALaterOneHasSucceeded) {
  record::Records records = {run_record("c", 0, 60, "rounding"), failure_record("c")};
  EXPECT_TRUE(summarize_cases(records)[0].rounds.empty());
  EXPECT_EQ(summarize_cases(records)[0].grade, "");
  records.push_back(run_record("c", 1, 240, "exact"));
  const CaseSummary summary = summarize_cases(records)[0];
  EXPECT_EQ(summary.values("rtfx.total"), (std::vector<double>{60, 240}));
  EXPECT_EQ(summary.grade, "rounding");
  const json listed = summary_json(summary);
  EXPECT_EQ(listed["metrics"]["rtfx.total"]["mean"], 150);
  EXPECT_EQ(listed["worst_round"], 0);
  EXPECT_EQ(listed["noisy"], true);
}

TEST(Summaries, ARoundThatIsMeasuredAgainAfterAFailureReplacesTheEarlierOne) {
  const record::Records records = {run_record("c", 0, 60, "exact"), run_record("c", 1, 70, "exact"),
                                   failure_record("c"), run_record("c", 1, 80, "exact")};
  const CaseSummary summary = summarize_cases(records)[0];
  EXPECT_FALSE(summary.failure);
  EXPECT_EQ(summary.values("rtfx.total"), (std::vector<double>{60, 80}));
}

/// A failure before any number of streams has the name of the batch, and no result key.
TEST(Summaries, ALaterStreamMakesTheFailureOfItsDecoderGood) {
  const auto named = [](auto record, const char* name, const char* decoder) {
    record.case_name = name;
    record.model.id = "m";
    record.dataset.id = "d";
    record.decoder.id = decoder;
    record.dtype = "fp32";
    return record;
  };
  record::StreamRun plain;
  plain.kind = "stream";
  plain.result_key = "k";
  const record::StreamRun run = named(plain, "m/d/x/streams2/fp32", "x");
  const auto failure = [&](const char* name, const char* decoder, const char* key) {
    record::Failure record = named(failure_record(name), name, decoder);
    record.result_key = key;
    return record;
  };
  const auto failed = [](const record::Records& records) {
    std::vector<std::string> names;
    for (const CaseSummary& summary : summarize(records)) {
      if (summary.failure) names.push_back(summary.case_name());
    }
    return names;
  };
  const std::vector<std::string> none;
  const record::Failure all = failure("m/d/x/b8/fp32", "x", "");
  EXPECT_EQ(failed({all, run}), none);
  EXPECT_EQ(failed({run, all, run}), none);
  EXPECT_EQ(failed({run, all}), std::vector<std::string>{"m/d/x/b8/fp32"});
  // The others are one of another number of streams, one of `rtfx run`, and one of another decoder.
  for (const record::Failure& other :
       {failure("m/d/x/streams4/fp32", "x", "k"), failure("m/d/x/b8/fp32", "x", "k"),
        failure("m/d/y/b8/fp32", "y", "")}) {
    EXPECT_EQ(failed({other, run}), std::vector<std::string>{std::string(other.case_name)});
  }
}

TEST(Summaries, RecordsThatRepeatOthersWordForWordCountOnce) {
  const record::Run first = run_record("c", 0, 10, "exact"),
                    second = run_record("c", 1, 11, "exact");
  const record::Run other = run_record("c", 0, 12, "exact");  // a round 0 of other content counts
  const CaseSummary summary =
      summarize_cases({first, second, first, other, second, first, other})[0];
  EXPECT_EQ(summary.values("rtfx.total"), (std::vector<double>{10, 12, 11}));
  EXPECT_EQ(summary.repeated, 4);
  EXPECT_EQ(summarize_cases({first, second})[0].repeated, 0);
}

}  // namespace
}  // namespace rtfx
