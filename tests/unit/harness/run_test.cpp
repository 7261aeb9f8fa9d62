// Tests whole runs on the quickstart checkpoint with decoders that misbehave.
#include "harness/run/run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <thread>

#include "algorithms/decoder.h"
#include "base/files.h"
#include "datasets/dataset.h"
#include "harness/results/journal.h"
#include "harness/results/summaries.h"
#include "harness/run/case_group.h"
#include "harness/run/make_records.h"
#include "harness/run/outcome.h"
#include "tests/support/records.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// A decoder with empty results, which throws in its second batch or marks every row as NaN.
class Misbehaving : public Decoder {
 public:
  explicit Misbehaving(bool throws) : throws_(throws) {}
  Description describe() const override {
    return {"misbehaving", Head::transducer, Description::Exactness::exact, {"rnnt"}, "logit"};
  }
  json options() const override { return json::object(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    if (throws_ && ++batches_ > 1) throw std::runtime_error("second batch");
    Hypotheses result = Hypotheses::empty(batch.frames.size(0), batch.frames.device());
    if (!throws_) result.nan.fill_(true);
    return result;
  }

 private:
  bool throws_;
  int batches_ = 0;
};

RegisterDecoder entry(const std::string& name, bool throws) {
  return RegisterDecoder{{name, "for tests", {}, [throws](const json&, std::string_view) {
                            return std::make_unique<Misbehaving>(throws);
                          }}};
}

/// A decoder that ends the program.
class Ending : public Misbehaving {
 public:
  Ending() : Misbehaving(false) {}
  Hypotheses decode(const EncodedBatch& batch) override { std::exit(0); }
};

const RegisterDecoder ending =
    RegisterDecoder{{"test_ending", "for tests", {}, [](const json&, std::string_view) {
                       return std::make_unique<Ending>();
                     }}};

const RegisterDecoder throwing = entry("test_throwing", true), nan = entry("test_nan", false);

class RunTest : public test::TempFolder {
 protected:
  json document(const std::vector<std::string>& decoders) const {
    const auto here = std::filesystem::current_path().string();
    return {
        {"question", "what happens?"},
        {"models", {here + "/models/quickstart/quickstart-rnnt.nemo"}},
        {"datasets",
         {{{"id", "d"}, {"manifest", here + "/datasets/quickstart/manifest.jsonl"}, {"limit", 2}}}},
        {"decoders", decoders},
        {"batch_sizes", {1}},
        {"device", "cpu"},
        {"threads", 1},
        {"output", path("run").string()},
        {"protocol", {{"warmup_rounds", 0}, {"measured_rounds", 2}}}};
  }
  int run(const json& config, Journal::Mode mode = Journal::Mode::fresh) const {
    return rtfx::run(parse_config({config, path("c.json")}), mode);
  }
  /// Returns the records of a kind, and of one decoder unless `decoder` is empty.
  std::vector<json> records(const std::string& kind, const std::string& decoder = "") const {
    std::vector<json> found;
    for (const json& record : test::read_objects(path("run/journal.jsonl"))) {
      if (record["kind"] == kind && (decoder.empty() || record["decoder"]["id"] == decoder))
        found.push_back(record);
    }
    return found;
  }
};

TEST_F(RunTest, ABaselineThatFailsHalfWayLeavesTheOthersUnchecked) {
  EXPECT_EQ(run(document({"test_throwing", "label_looping"})), kFailed);
  const auto failures = records("failure");
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0]["stage"], "decode");
  EXPECT_EQ(failures[0]["message"], "second batch");
  const auto runs = records("run", "label_looping");
  ASSERT_EQ(runs.size(), 2U);
  for (const json& record : runs) EXPECT_TRUE(record["exactness"].is_null()) << record["exactness"];
}

/// `rtfx tune` measures in this way and cannot isolate its cases, so the message must not advise
/// that.
TEST_F(RunTest, AnEndWithinAMeasurementHasNoAdviceOfARun) {
  const Config config = parse_config({document({"test_ending"}), path("c.json")});
  const Journal lock(config.output, Journal::Mode::fresh);
  EXPECT_EXIT(
      measure(config), testing::ExitedWithCode(kFailed),
      "test_ending/.*, .*: the program was ended by exit\\(\\); what was recorded is kept\n");
}

TEST_F(RunTest, EverythingFromSamplesToTextIsInsideTheClock) {
  EXPECT_EQ(run(document({"label_looping", "ctc_greedy"})), kOk);
  for (const json& record : records("run")) {
    double regions = 0;
    for (const json& region : record["regions"]) regions += region["host_seconds"].get<double>();
    EXPECT_GT(record["regions"]["pad"]["host_seconds"], 0);
    EXPECT_NEAR(record["total_seconds"], regions, 1e-12);
    const double wall = record["wall_seconds"], gap = record["gap_seconds"];
    EXPECT_GE(wall, regions);
    EXPECT_LE(wall, record["conditions"]["wall_seconds"]);
    EXPECT_NEAR(gap, wall - regions, 1e-12);
    EXPECT_EQ(record["batches"]["total_seconds"].size(), 2U);
    EXPECT_GT(record["metrics"]["batch_ms.p50"], 0);
    EXPECT_TRUE(record["metrics"]["batch_ms.p95"].is_null());  // two batches are too few
    EXPECT_FALSE(record.contains("energy"));
  }
}

/// Time between a region's end and the next one's begin counts as wall time.
TEST(WallClock, CountsWhatLiesBetweenRegions) {
  using namespace std::chrono_literals;
  const RegionClock clock(at::kCPU);
  RegionTimes times;
  {
    const WallClock wall(times);
    clock.measure(Region::pad, 1, times, [] { std::this_thread::sleep_for(10ms); });
    std::this_thread::sleep_for(20ms);
    clock.measure(Region::h2d, 1, times, [] {});
  }
  EXPECT_GE(times.seconds(Region::pad), 0.01);
  EXPECT_GE(times.wall - times.total(), 0.02);
  RegionTimes both = times;
  both += times;
  EXPECT_DOUBLE_EQ(both.wall, 2 * times.wall);
}

TEST_F(RunTest, EnergyIsOfWholePassesOfOneDecoderAlone) {
  LoadedInputs inputs(parse_config({document({"label_looping"}), path("c.json")}));
  inputs.read_audio_files();
  const auto plan = make_plan(inputs.config(), inputs.kinds());
  CaseGroupRunner runner(
      inputs, plan[0], at::kCPU,
      [](const Arm&, const std::string&, const FailureText& failure) {
        ADD_FAILURE() << failure.text;
      },
      [] {});
  runner.prepare();
  Arm& arm = runner.arms().front();
  // The counter shows 100 W, and goes on every 10 ms.
  const auto begin = std::chrono::steady_clock::now();
  const auto counter = [begin]() -> std::optional<uint64_t> {
    const auto since = std::chrono::steady_clock::now() - begin;
    return 1000 * (since / std::chrono::milliseconds(10));
  };
  const auto use = runner.energy(arm, 0.6, counter);
  ASSERT_TRUE(use);
  EXPECT_GE(use->seconds, 0.6);
  EXPECT_GE(use->passes, 1);
  EXPECT_NEAR(use->audio_seconds,
              static_cast<double>(use->passes) * inputs.datasets()[0].audio_seconds, 1e-6);
  EXPECT_NEAR(use->power.watts, 100, 15);
  EXPECT_NEAR(use->joules_per_audio_hour(),
              3600 * use->power.watts * use->seconds / use->audio_seconds, 1e-6);
  EXPECT_FALSE(runner.energy(arm, 0.01, [] { return std::optional<uint64_t>(5); }));
}

TEST_F(RunTest, NanIsAFailureNamingTheUtteranceAndTheSweepGoesOn) {
  EXPECT_EQ(run(document({"label_looping", "test_nan"})), kFailed);
  const auto failures = records("failure", "test_nan");
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_HAS(failures[0]["message"].get<std::string>(), "NaN in the emissions of utterance '1737");
  EXPECT_EQ(records("run", "label_looping").size(), 2U);
}

TEST_F(RunTest, AudioThatCannotBeUsedFailsItsDatasetOnly) {
  std::vector<float> samples = test::sine(440, 16000, 16000);
  samples[7] = std::numeric_limits<float>::quiet_NaN();
  json config = document({"label_looping"});
  config["datasets"].push_back(
      {{"id", "nan"},
       {"files", {write_audio("nan.wav", samples, SF_FORMAT_WAV | SF_FORMAT_FLOAT).string()}}});
  EXPECT_EQ(run(config), kFailed);
  const auto failures = records("failure");
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0]["stage"], "load");
  EXPECT_HAS(failures[0]["message"].get<std::string>(), "nan.wav");
  EXPECT_EQ(records("run").size(), 2U);
}

TEST_F(RunTest, ResumeRunsWhatIsMissingOnceAndKeepsTheFirstHash) {
  json config = document({"frame_looping", "label_looping"});
  EXPECT_EQ(run(config), kOk);
  const auto first = records("run");
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
  EXPECT_EQ(records("run"), first);
  EXPECT_EQ(records("summary").size(), 2U);

  config["protocol"]["measured_rounds"] = 3;
  EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
  const auto runs = records("run");
  ASSERT_EQ(runs.size(), 6U);
  for (size_t i = 4; i < 6; ++i) {
    EXPECT_EQ(runs[i]["round"], 2);
    EXPECT_EQ(runs[i]["deterministic"], true);
  }
  EXPECT_EQ(records("summary").back()["rounds"], 3);
}

/// The manifest stays as it is, and so do the number and the length of its files. Only the samples
/// differ.
TEST_F(RunTest, ResumeMeasuresAudioThatWasReplacedAnew) {
  const auto write_tone = [&](double hz) {
    write_audio("tone.wav", test::sine(hz, 16000, 16000), SF_FORMAT_WAV | SF_FORMAT_FLOAT);
  };
  write_tone(440);
  json config = document({"label_looping"});
  config["datasets"] = {
      {{"id", "d"},
       {"manifest", write("m.jsonl", R"({"audio_filepath": "tone.wav", "text": ""})").string()}}};
  EXPECT_EQ(run(config), kOk);
  EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
  ASSERT_EQ(records("run").size(), 2U);
  write_tone(880);
  EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
  const auto runs = records("run");
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_NE(runs[0]["result_key"], runs[2]["result_key"]);
  EXPECT_EQ(records("summary").back()["rounds"], 2);
}

/// The failure has another result key than the rounds, since its audio is not theirs.
TEST_F(RunTest, ResumeMakesAFailureBehindTheRoundsGood) {
  const auto write_tone = [&](float first) {
    std::vector<float> samples = test::sine(440, 16000, 16000);
    samples[7] = first;
    write_audio("tone.wav", samples, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
  };
  json config = document({"frame_looping", "label_looping"});
  config["datasets"] = {
      {{"id", "d"},
       {"manifest", write("m.jsonl", R"({"audio_filepath": "tone.wav", "text": ""})").string()}}};
  write_tone(0);
  EXPECT_EQ(run(config), kOk);
  ASSERT_EQ(records("run").size(), 4U);
  write_tone(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(run(config, Journal::Mode::resume), kFailed);
  ASSERT_EQ(records("failure").size(), 2U);
  write_tone(0);
  for (int again = 0; again < 2; ++again) {  // once it is good, nothing more is measured
    EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
    const auto runs = records("run");
    ASSERT_EQ(runs.size(), 6U);
    for (size_t i = 4; i < 6; ++i) {
      EXPECT_EQ(runs[i]["round"], 1);
      EXPECT_EQ(runs[i]["result_key"], runs[i - 4]["result_key"]);
      EXPECT_EQ(runs[i]["deterministic"], true);
    }
    EXPECT_EQ(records("summary").size(), 4U);
    EXPECT_EQ(records("summary").back()["rounds"], 2);
  }
  for (const CaseSummary& summary : summarize_cases(read_journal(path("run/journal.jsonl")))) {
    EXPECT_FALSE(summary.failure);
    EXPECT_EQ(summary.rounds.size(), 2U);
  }
}

TEST_F(RunTest, ResumeMeasuresResultsThatWereNotCheckedAnew) {
  for (const char* check : {"replay", "isolated"}) {
    json config = document({"label_looping"});
    config["protocol"]["mode"] = "throughput";
    config["protocol"]["steady_seconds"] = 0;
    config["verify"] = {{check, false}};
    EXPECT_EQ(run(config, Journal::Mode::force), kOk);
    EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
    ASSERT_EQ(records("run").size(), 2U);
    config.erase("verify");
    EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
    const auto runs = records("run");
    ASSERT_EQ(runs.size(), 4U) << check;
    EXPECT_NE(runs[0]["result_key"], runs[2]["result_key"]);
    EXPECT_EQ(records("summary").back()["rounds"], 2);
  }
}

TEST_F(RunTest, ResumeWritesHypothesesThatAreLost) {
  json config = document({"label_looping"});
  EXPECT_EQ(run(config), kOk);
  const std::string name = records("run")[0]["result_key"].get<std::string>() + ".jsonl";
  const std::filesystem::path file = path("run/hypotheses") / name;
  const std::string before = read_bytes(file);
  std::filesystem::remove(file);
  config["protocol"]["measured_rounds"] = 3;
  EXPECT_EQ(run(config, Journal::Mode::resume), kOk);
  EXPECT_EQ(read_bytes(file), before);
}

TEST_F(RunTest, TextsThatDifferWithoutReferencesAreDifferent) {
  json config = document({"label_looping", "test_throwing"});
  config["datasets"] = {
      {{"id", "f"}, {"files", {std::filesystem::absolute("datasets/quickstart/qs01.flac")}}}};
  config["protocol"]["measured_rounds"] = 1;
  EXPECT_EQ(run(config), kCorrectness);
  EXPECT_EQ(records("run", "test_throwing").front()["exactness"]["grade"], "different");
}

TEST(CheckMetrics, RefusesAMetricThatTheTableLacks) {
  record::Run run;
  run.metrics["rtfx.total"] = Number(1.0);
  EXPECT_NO_THROW(check_metrics(run));
  run.metrics["rtfx.forgotten"] = Number(1.0);
  EXPECT_THROW(check_metrics(run), std::logic_error);
}

TEST(AboveFp32, ComparesTheWordErrorsOfACaseWithThoseOfTheSameCaseInFp32) {
  record::Records records;
  const auto add = [&](const char* name, double wer) {
    record::Run run;
    run.kind = "run";
    run.case_name = name;
    run.result_key = name;
    run.decoder.head = "transducer";
    run.wer.wer = Number(wer);
    records.push_back(run);
  };
  add("m/d/greedy/b8/fp32", 0.1);
  add("m/d/greedy/b8/bf16", 0.1009);
  add("m/d/greedy/b8/fp8", 0.1012);
  add("m/d/greedy/b16/fp8", 0.2);  // without a case in fp32
  add("m/d/greedy/b32/fp32", 0.354);
  add("m/d/greedy/b32/bf16", 0.355);  // 0.355 - 0.354 > 0.001 after rounding
  const auto cases = summarize_cases(records);
  EXPECT_TRUE(above_fp32(cases, 1).empty());
  const auto above = above_fp32(cases, 0.001);
  ASSERT_EQ(above.size(), 1U);
  EXPECT_HAS(above[0], "m/d/greedy/b8/fp8: 0.12 points more");
}

}  // namespace
}  // namespace rtfx
