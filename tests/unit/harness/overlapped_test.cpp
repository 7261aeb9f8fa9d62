// Tests whole runs in protocol.mode "throughput" on the quickstart checkpoint.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "harness/results/summaries.h"
#include "harness/run/case_group.h"
#include "harness/run/run.h"
#include "harness/run/session.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "tests/support/records.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// A decoder with empty results. Its second batch throws, marks rows as NaN, claims a token that is
/// not there, or has the program interrupted.
class SecondBatch : public Decoder {
 public:
  explicit SecondBatch(std::string fault) : fault_(std::move(fault)) {}
  Description describe() const override {
    return {"second_batch", Head::none, Description::Exactness::approximate, {}, ""};
  }
  json options() const override { return json::object(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    Hypotheses result = Hypotheses::empty(batch.frames.size(0), batch.frames.device());
    if (++batches_ != 2) return result;
    if (fault_ == "throw") throw std::runtime_error("second batch");
    if (fault_ == "nan") result.nan.fill_(true);
    if (fault_ == "length") result.lengths.fill_(1);
    if (fault_ == "interrupt") std::raise(SIGINT);
    return result;
  }
  Counters counters() const override { return {{"batches", 1}}; }

 private:
  std::string fault_;
  int batches_ = 0;
};

RegisterDecoder second_batch(const std::string& fault) {
  return RegisterDecoder{{"test_second_" + fault, "for tests", {}, [fault](auto&, auto) {
                            return std::make_unique<SecondBatch>(fault);
                          }}};
}
const RegisterDecoder throwing = second_batch("throw"), nan = second_batch("nan"),
                      length = second_batch("length"), interrupting = second_batch("interrupt"),
                      harmless = second_batch("none");

class OverlappedTest : public test::TempFolder {
 protected:
  json document(const std::vector<std::string>& decoders) const {
    const auto here = std::filesystem::current_path().string();
    return {
        {"question", "what overlaps?"},
        {"models", {here + "/models/quickstart/quickstart-rnnt.nemo"}},
        {"datasets",
         {{{"id", "d"}, {"manifest", here + "/datasets/quickstart/manifest.jsonl"}, {"limit", 5}}}},
        {"decoders", decoders},
        {"batch_sizes", {2}},
        {"device", "cpu"},
        {"threads", 1},
        {"protocol",
         {{"warmup_rounds", 0},
          {"measured_rounds", 1},
          {"mode", "throughput"},
          {"steady_seconds", 0}}}};
  }
  int run(json config, const std::string& folder, Journal::Mode mode = Journal::Mode::fresh) const {
    config["output"] = path(folder).string();
    return rtfx::run(parse_config({config, path("c.json")}), mode);
  }
  std::vector<json> records(const std::string& folder, const std::string& kind) const {
    std::vector<json> found;
    for (const json& record : test::read_objects(path(folder) / "journal.jsonl"))
      if (record["kind"] == kind) found.push_back(record);
    return found;
  }
  /// Returns hashes of results, errors, counters and grades by decoder and round. A hash covers the
  /// bits of the scores.
  std::map<std::string, json> results(const std::string& folder) const {
    std::map<std::string, json> found;
    for (const json& r : records(folder, "run")) {
      const std::string decoder = r["decoder"]["id"];
      found[decoder + r["round"].dump()] = {r["hypotheses_sha256"], r["wer"], r["counters"],
                                            r["exactness"], r["deterministic"]};
    }
    return found;
  }
};

TEST_F(OverlappedTest, ResultsAreThoseOfTheIsolatedModeBitForBit) {
  for (const std::string sort : {"duration_desc", "shuffle"}) {
    json config = document({"frame_looping", "label_looping", "ctc_greedy"});
    config["sort"] = sort;
    config["protocol"]["mode"] = "isolated";
    ASSERT_EQ(run(config, sort), kOk);
    const auto expected = results(sort);
    ASSERT_EQ(expected.size(), 3U);
    config["protocol"]["mode"] = "throughput";
    for (const int in_flight : {1, 4}) {
      config["protocol"]["throughput"] = {{"in_flight", in_flight},
                                          {"audio", sort == "shuffle" ? "files" : "memory"}};
      const std::string folder = sort + std::to_string(in_flight);
      ASSERT_EQ(run(config, folder), kOk);
      EXPECT_EQ(results(folder), expected) << folder;
    }
  }
}

TEST_F(OverlappedTest, TheJournalHasTheClockOfThePassAndItsStages) {
  json config = document({"label_looping", "null"});
  config["protocol"]["measured_rounds"] = 2;
  config["protocol"]["throughput"] = {{"in_flight", 3}, {"audio", "files"}};
  ASSERT_EQ(run(config, "run"), kOk);
  for (const json& r : records("run", "run")) {
    const double total = r["total_seconds"], audio = r["dataset"]["audio_seconds"];
    EXPECT_NEAR(r["metrics"]["rtfx.total"], audio / total, 1e-9 * audio / total);
    EXPECT_GE(r["wall_seconds"], total);
    EXPECT_LE(r["wall_seconds"], r["conditions"]["wall_seconds"]);
    EXPECT_TRUE(r["metrics"]["rtfx.decode"].is_null());
    // A batch's total lasts from the text before it to its own text. So the totals fill the pass.
    double sum = 0, longest = 0;
    for (const json& seconds : r["batches"]["total_seconds"]) sum += seconds.get<double>();
    EXPECT_NEAR(sum, total, 1e-5);
    for (const json& seconds : r["batches"]["latency_seconds"]) {
      EXPECT_LE(seconds.get<double>(), total + 1e-6);
      longest = std::max(longest, seconds.get<double>());
    }
    EXPECT_GT(longest, total / 4);
    EXPECT_EQ(r["pipeline"]["in_flight"], 3);
    EXPECT_EQ(r["pipeline"]["audio"], "files");
    EXPECT_EQ(r["pipeline"]["pass_seconds"], json::array({total}));
    EXPECT_EQ(r["isolated"]["grade"], "bitwise");
    EXPECT_EQ(r.contains("first_pass"), r["round"] == 0);
    const std::string bound_by = r["bound_by"];
    for (const char* stage : {"load", "copy", "encoder", "decode", "texts"}) {
      const double share = r["metrics"][std::string("busy.") + stage];
      EXPECT_LE(share, r["metrics"]["busy." + bound_by]) << stage;
      EXPECT_GT(share, 0) << stage;
      EXPECT_LE(share, 1) << stage;
    }
    EXPECT_NEAR(r["metrics"]["busy.decode"],
                r["regions"]["decode"]["host_seconds"].get<double>() / total, 1e-9);
  }
  for (const CaseSummary& c : summarize_cases(read_journal(path("run") / "journal.jsonl"))) {
    const std::vector<std::string> marks = c.marks();
    EXPECT_TRUE(std::ranges::any_of(marks, [](const std::string& mark) {
      return mark.starts_with("overlapped, encoder ") && mark.ends_with(" % busy");
    }));
  }
}

TEST_F(OverlappedTest, ABatchThatFailsCostsItsDecoder) {
  const json config =
      document({"label_looping", "test_second_throw", "test_second_nan", "test_second_length"});
  for (const int in_flight : {1, 4}) {
    json changed = config;
    changed["protocol"]["throughput"]["in_flight"] = in_flight;
    const std::string folder = std::to_string(in_flight);
    EXPECT_EQ(run(changed, folder), kFailed);
    std::map<std::string, std::string> messages;
    for (const json& failure : records(folder, "failure")) {
      EXPECT_EQ(failure["stage"], "decode");
      messages[failure["decoder"]["id"]] = failure["message"];
    }
    EXPECT_EQ(messages.size(), 3U);
    EXPECT_EQ(messages["test_second_throw"], "second batch");
    EXPECT_HAS(messages["test_second_nan"], "NaN in the emissions of utterance '");
    EXPECT_HAS(messages["test_second_length"], "its length is 1");
    EXPECT_HAS(messages["test_second_length"], "(utterance '");
    EXPECT_EQ(records(folder, "run").size(), 1U);  // only that of label_looping
  }
}

TEST_F(OverlappedTest, AudioThatIsGoneFailsWhereItIsRead) {
  const auto wave =
      write_audio("a.wav", test::sine(440, 16000, 16000), SF_FORMAT_WAV | SF_FORMAT_PCM_16);
  json config = document({"test_second_none"});
  config["datasets"] = {{{"id", "d"}, {"files", {wave.string()}}}};
  config["protocol"]["throughput"]["audio"] = "files";
  config["output"] = path("run").string();
  Session session(parse_config({config, path("c.json")}), {});
  session.inputs().read_audio_files();
  std::filesystem::remove(wave);
  std::string stage, message;
  CaseGroupRunner runner(
      session.inputs(), session.plan()[0], at::kCPU,
      [&](const Arm&, const std::string& where, const FailureText& failure) {
        stage = where;
        message = failure.text;
      },
      [] {});
  runner.prepare();
  runner.round(0);
  EXPECT_EQ(stage, "load");
  EXPECT_HAS(message, "a.wav");
}

TEST_F(OverlappedTest, AnInterruptEndsThePassAndKeepsWhatWasMeasured) {
  json config = document({"label_looping"});
  ASSERT_EQ(run(config, "run"), kOk);
  const auto before = records("run", "run");
  // The run is in a process of its own, because the signal stays caught.
  config["decoders"] = {"label_looping", "test_second_interrupt"};
  EXPECT_EXIT(std::exit(run(config, "run", Journal::Mode::resume)),
              testing::ExitedWithCode(kInterrupted), "interrupted");
  EXPECT_EQ(records("run", "run"), before);
  EXPECT_TRUE(records("run", "failure").empty());
}

/// A batch that fails costs its own files, and the other texts keep their order.
TEST_F(OverlappedTest, OtherBatchesGoOnAfterOneThatFails) {
  json config = document({"test_second_throw"});
  config["output"] = path("run").string();
  Session session(parse_config({config, path("c.json")}), {});
  const auto model = session.inputs().model(0, at::kCPU, "fp32");
  RecordedEncoder encoder(model, /*graphs=*/false);
  const std::vector<float> clip = test::sine(440, 16000, 16000);
  for (const size_t in_flight : {1, 3}) {
    OverlappedPipeline pipeline(model, encoder, in_flight);
    SecondBatch decoder("throw");
    pipeline.prepare(decoder, {});
    std::vector<std::string> ends;
    pipeline.run(
        decoder,
        [&](size_t number, BatchInFlight& batch) {
          if (number == 3) throw std::runtime_error("not to be read");
          batch.clips.assign(number + 1, clip);
          return number < 6;
        },
        [&](size_t number, BatchInFlight& batch) {
          EXPECT_EQ(number, ends.size());
          EXPECT_EQ(batch.failure != nullptr, std::string(batch.failed_in) != "");
          EXPECT_EQ(batch.decoded.texts.size(), batch.failure ? 0 : number + 1);
          ends.emplace_back(batch.failed_in);
        });
    EXPECT_EQ(ends, (std::vector<std::string>{"", "decode", "", "load", "", ""}));
  }
}

/// A source adds a clip even when it ends its run. The next run must not find that clip in its
/// batch.
TEST_F(OverlappedTest, ABatchBeginsEmptyWhateverASourceLeftInIt) {
  json config = document({"label_looping"});
  config["output"] = path("run").string();
  Session session(parse_config({config, path("c.json")}), {});
  const auto model = session.inputs().model(0, at::kCPU, "fp32");
  RecordedEncoder encoder(model, /*graphs=*/false);
  const std::vector<float> clip = test::sine(440, 16000, 16000);
  for (const size_t in_flight : {1, 3}) {
    OverlappedPipeline pipeline(model, encoder, in_flight);
    const auto decoder = make_decoder("label_looping", {}, "");
    pipeline.prepare(*decoder, {});
    for (int run = 0; run < 3; ++run) {
      size_t batches = 0;
      pipeline.run(
          *decoder,
          [&](size_t number, BatchInFlight& batch) {
            batch.clips.emplace_back(clip);
            return number < 2;
          },
          [&](size_t, BatchInFlight& batch) {
            EXPECT_EQ(batch.decoded.texts.size(), 1U) << in_flight << ' ' << run;
            ++batches;
          });
      EXPECT_EQ(batches, 2U);
    }
  }
}

TEST_F(OverlappedTest, SyncDebugIsRefused) {
  json config = document({"label_looping"});
  config["sync_debug"] = true;
  EXPECT_HAS(test::user_error([&] {
               parse_config({config, path("c.json")});
             }),
             "c.json#/sync_debug: with \"mode\": \"throughput\"");
}

}  // namespace
}  // namespace rtfx
