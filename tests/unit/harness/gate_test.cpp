#include "harness/results/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/json.h"
#include "harness/results/changes.h"
#include "harness/results/compare.h"
#include "harness/results/journal.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;

TEST(Judge, ImprovementNeverFails) {
  EXPECT_EQ(judge({1.5, 1.4, 1.6}, 0.02, 0.01).verdict, Verdict::pass);
  EXPECT_EQ(judge({1.5, 1.01, 2.0}, 0.0, 0.5).verdict, Verdict::pass);  // also within the noise
}

TEST(Judge, TheIntervalAgainstTheTolerance) {
  EXPECT_EQ(judge({1.0, 0.985, 1.015}, 0.02, 0.01).verdict, Verdict::pass);
  EXPECT_EQ(judge({0.99, 0.975, 1.005}, 0.02, 0.01).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01).verdict, Verdict::regressed);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01, 0.97).verdict, Verdict::regressed);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01, 0.985).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.97, 0.96, 0.981}, 0.02, 0.01).verdict, Verdict::inconclusive);
}

TEST(Judge, AToleranceBelowTheNoiseIsRefused) {
  const Judgement same = judge({1.0, 0.999, 1.001}, 0.01, 0.03);
  EXPECT_EQ(same.verdict, Verdict::inconclusive);
  EXPECT_HAS(same.reason, "tolerance of 1 % is below the noise floor of 3 %");
  EXPECT_EQ(judge({0.98, 0.975, 0.985}, 0.01, 0.03).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.5, 0.48, 0.52}, 0.01, 0.03).verdict, Verdict::regressed);
}

TEST(Judge, SharesArePercentWithoutPowersOfTen) {
  EXPECT_HAS(judge({1.0, 0.5, 2.3}, 0.05, 1.3).reason,
             "tolerance of 5 % is below the noise floor of 130 %");
  EXPECT_EQ(percent_text(0.0025), "0.25 %");
  EXPECT_EQ(percent_text(0.12), "12 %");
  EXPECT_EQ(percent_text(0.996), "100 %");
  GateRow row{"c", "rtfx.decode", 35.2, 33.1, Interval{0.94, 0.93, 0.951}, 0.05, 1.3, {}, ""};
  EXPECT_HAS(figures_of(row), "tolerance 5 %, noise 130 %");
}

/// A time may grow by a factor of 1 + tolerance, which is a gain of 1 / (1 + tolerance).
TEST(Judge, ATimeMayGrowByTheTolerance) {
  const auto judged = [](double grown, double tolerance, double floor = 0.01) {
    return judge({1 / grown, 0.999 / grown, 1.001 / grown}, tolerance, floor, {},
                 /*less_is_better=*/true);
  };
  EXPECT_EQ(judged(1.09, 0.1).verdict, Verdict::pass);
  EXPECT_EQ(judged(1.108, 0.1).verdict, Verdict::regressed);
  EXPECT_EQ(judged(1.49, 0.5).verdict, Verdict::pass);
  EXPECT_EQ(judged(1.9, 0.5).verdict, Verdict::regressed);
  EXPECT_EQ(judged(1.45, 0.1, 0.5).verdict, Verdict::inconclusive);
  EXPECT_HAS(judged(1.45, 0.1, 0.5).reason, "tolerance of 10 % is below the noise floor of 50 %");
  EXPECT_EQ(judged(1.55, 0.1, 0.5).verdict, Verdict::regressed);
}

TEST(Judge, OneRoundIsInconclusive) {
  const Interval unknown = unpaired_ratio({10}, {5});
  const Judgement judged = judge(unknown, 0.02, 0.01);
  EXPECT_EQ(judged.verdict, Verdict::inconclusive);
  EXPECT_HAS(judged.reason, "one value has no interval");
}

TEST(Verdicts, TheGraverOneWins) {
  const std::vector<Verdict> order = {Verdict::pass, Verdict::inconclusive, Verdict::regressed,
                                      Verdict::invalid, Verdict::correctness};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      EXPECT_EQ(worse(order[i], order[j]), order[i]);
      EXPECT_EQ(worse(order[j], order[i]), order[i]);
    }
  }
  EXPECT_EQ(worst({}), Verdict::invalid);
}

class GateTest : public test::TempFolder {
 protected:
  static constexpr double kAudio = 100;

  /// Returns a journal of two decoders and the first one's A/A control, with 0.5 % of noise. The
  /// second decoder takes `slower` times as long.
  ResultSet results(uint64_t seed, double slower = 1, bool control = true) const {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    std::string lines = to_line({{"kind", "provenance"},
                                 {"provenance_id", "p"},
                                 {"config",
                                  {{"protocol", {{"cv_max", 0.05}, {"measured_rounds", 10}}},
                                   {"verify", {{"required", {{"fp32", "exact"}}}}}}},
                                 {"rtfx", {{"build_type", "Release"}, {"sanitizer", false}}},
                                 {"device", {{"type", "cpu"}, {"name", "Some CPU"}}}});
    for (int round = 0; round < 10; ++round) {
      const auto noise = [&] { return std::exp(0.005 * normal(engine)); };
      lines += to_line(record("frame", round, 2 * noise()));
      lines += to_line(record("label", round, slower * noise()));
      if (control) lines += to_line(record("frame.aa", round, 2 * noise()));
    }
    return read_results(write(std::to_string(seed) + "/journal.jsonl", lines));
  }

  static json record(const std::string& decoder, int round, double decode) {
    json fields = {
        {"kind", "run"},
        {"provenance_id", "p"},
        {"case", "m/d/" + decoder + "/b1/fp32"},
        {"result_key", decoder},
        {"round", round},
        {"model", {{"id", "m"}}},
        {"dataset", {{"id", "d"}, {"utterances", 10}, {"audio_seconds", kAudio}}},
        {"decoder",
         {{"id", decoder}, {"name", decoder}, {"head", "transducer"}, {"exactness", "exact"}}},
        {"batch", {{"by", "count"}, {"size", 1}}},
        {"dtype", "fp32"},
        {"device", "cpu"},
        {"regions", {{"decode", {{"host_seconds", decode}}}}},
        {"total_seconds", decode + 1},
        {"metrics",
         {{"rtfx.total", kAudio / (decode + 1)},
          {"rtfx.encode_decode", nullptr},
          {"rtfx.decode", kAudio / decode},
          {"share.decode", decode / (decode + 1)}}},
        {"wer",
         {{"normalizer", "none"},
          {"version", 1},
          {"wer", 0.1},
          {"substitutions", 1},
          {"deletions", 0},
          {"insertions", 0}}},
        {"exactness", nullptr},
        {"deterministic", true},
        {"hypotheses_sha256", "h"},
        {"tokens_sha256", "t"}};
    if (decoder.ends_with(".aa")) fields["decoder"]["control_of"] = "frame";
    return fields;
  }

  /// Runs the gate with one baseline run. `drift` is the drift between runs, and these have none.
  static std::vector<GateRow> gate(const ResultSet& baseline, const ResultSet& current,
                                   const Tolerances& tolerances = {{"rtfx.decode", 0.03},
                                                                   {"rtfx.total", 0.02}},
                                   std::optional<double> drift = 0) {
    return rtfx::gate(std::span(&baseline, 1), current, {.tolerances = tolerances, .drift = drift});
  }

  static Verdict of(const std::vector<GateRow>& rows, const std::string& what) {
    for (const GateRow& row : rows) {
      if (row.case_name.find("label") != std::string::npos && row.what == what) return row.verdict;
    }
    ADD_FAILURE() << "no row " << what;
    return Verdict::invalid;
  }
};

TEST_F(GateTest, FivePercentSlowerIsRegressed) {
  const auto rows = gate(results(1), results(2, 1.05));
  EXPECT_EQ(of(rows, "rtfx.decode"), Verdict::regressed);
  EXPECT_EQ(of(rows, "results"), Verdict::pass);
  EXPECT_EQ(worst(rows), Verdict::regressed);
  EXPECT_EQ(of(gate(results(1), results(2, 0.95)), "rtfx.decode"), Verdict::pass);
}

TEST_F(GateTest, SameCodeIsNeverRegressed) {
  int passed = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const bool control = i % 2 == 0;
    const ResultSet baseline = results(2 * i, 1, control), current = results(2 * i + 1, 1, control);
    const Verdict verdict =
        worst(gate(baseline, current, {{"rtfx.decode", 0.01}, {"rtfx.total", 0.01}}));
    EXPECT_NE(verdict, Verdict::regressed) << i;
    passed += verdict == Verdict::pass;
  }
  EXPECT_GE(passed, 60);  // most gates reach a conclusion
}

TEST_F(GateTest, OtherSharesOfTheCpusAreNotCompared) {
  const auto with_cpu = [&](uint64_t seed, const json& cpu) {
    ResultSet set = results(seed);
    for (CaseResult& c : set.cases) {
      record::Provenance changed = c.provenance();
      changed.cpu = record::Cpu::table().read(cpu);
      c.shared_provenance = std::make_shared<const record::Provenance>(std::move(changed));
    }
    return set;
  };
  const json cpu = {{"threads", 4},
                    {"wait_policy", "passive"},
                    {"load_average", 0.1},
                    {"affinity", {{"cpus", 4}, {"list", "0-3"}}},
                    {"group_limits", {{"cpus", nullptr}, {"memory_bytes", nullptr}}}};
  const auto rows = [&](const char* pointer, const json& value) {
    json other = cpu;
    other[json::json_pointer(pointer)] = value;
    return gate(with_cpu(1, cpu), with_cpu(2, other));
  };
  EXPECT_EQ(of(rows("/load_average", 3.0), "results"), Verdict::pass);
  EXPECT_EQ(of(rows("/affinity/list", "4-7"), "results"), Verdict::pass);
  EXPECT_EQ(of(rows("/wait_policy", "active"), "case"), Verdict::invalid);
  EXPECT_EQ(of(rows("/affinity/cpus", 2), "case"), Verdict::invalid);
  EXPECT_EQ(of(rows("/group_limits/cpus", 1.5), "case"), Verdict::invalid);
  // A journal of an earlier release lacks some of the CPU's values.
  EXPECT_EQ(of(gate(with_cpu(1, {{"threads", 4}}), with_cpu(2, cpu)), "results"), Verdict::pass);
}

TEST_F(GateTest, RunsThatCountPaddingAreNotComparedWithThoseThatDoNot) {
  const ResultSet baseline = results(1);
  ResultSet current = results(2);
  for (CaseResult& c : current.cases) {
    for (record::Round& round : c.summary.rounds)
      std::get<record::Run>(round).regions["pad"].host_seconds = 0.1;
  }
  const auto rows = gate(baseline, current);
  EXPECT_EQ(of(rows, "case"), Verdict::invalid);
  EXPECT_HAS(rows.front().reason, "padding");
  EXPECT_NE(of(gate(current, current), "rtfx.total"), Verdict::invalid);
}

TEST_F(GateTest, ControlsGiveTheNoiseFloorAndNoRows) {
  const auto rows = gate(results(1), results(2));
  for (const GateRow& row : rows) {
    EXPECT_EQ(row.case_name.find(".aa"), std::string::npos);
    EXPECT_LT(row.floor.value_or(0), 0.02);
  }
  const ResultSet with = results(1), without = results(1, 1, false);
  const Metric& decode = find_metric("rtfx.decode", "");
  EXPECT_TRUE(measured_noise_floor(with, "m/d/b1/fp32", decode));
  EXPECT_FALSE(measured_noise_floor(without, "m/d/b1/fp32", decode));
}

TEST_F(GateTest, AControlWithOneValueGivesNoNoiseFloor) {
  ResultSet set = results(1);
  for (CaseResult& c : set.cases) {
    auto& first = std::get<record::Run>(c.summary.rounds.front());
    first.metrics["energy.joules_per_hour"] = Nullable<Number>(Number(5000));
  }
  const std::string group = "m/d/b1/fp32";
  EXPECT_FALSE(measured_noise_floor(set, group, find_metric("energy.joules_per_hour", "")));
  for (const json& document : {speed_ups_json(set), comparison_json(set, set)}) {
    EXPECT_TRUE(document["noise_floors"][group].contains("rtfx.decode"));
    EXPECT_FALSE(document["noise_floors"][group].contains("energy.joules_per_hour"));
  }
}

TEST_F(GateTest, AControlOfTheOtherModeGivesNoNoiseFloor) {
  ResultSet set = results(1);
  for (CaseResult& c : set.cases) {
    if (!c.control_of().empty()) std::get<record::Run>(c.summary.last).pipeline.emplace();
  }
  EXPECT_FALSE(measured_noise_floor(set, "m/d/b1/fp32", find_metric("rtfx.total", "")));
}

TEST_F(GateTest, ClearlySlowerIsRegressedThoughTheGateIsTight) {
  EXPECT_EQ(of(gate(results(1), results(2, 2.0), {{"rtfx.decode", 1e-4}}), "rtfx.decode"),
            Verdict::regressed);
  EXPECT_EQ(of(gate(results(1), results(2), {{"rtfx.decode", 1e-4}}), "rtfx.decode"),
            Verdict::inconclusive);
}

void disturb(CaseResult& result, size_t round) {
  std::get<record::Run>(result.summary.rounds[round]).suspect = std::vector<std::string>{"clock"};
}

TEST_F(GateTest, SuspectRoundsAreLeftOutWhereThreeAreClean) {
  ResultSet current = results(2, 1.1);
  for (CaseResult& c : current.cases) {
    for (size_t r = 0; r < 7; ++r) disturb(c, r);
  }
  EXPECT_EQ(of(gate(results(1), current), "rtfx.decode"), Verdict::regressed);
  for (CaseResult& c : current.cases) disturb(c, 7);
  const auto rows = gate(results(1), current);
  EXPECT_EQ(of(rows, "rtfx.decode"), Verdict::inconclusive);
}

// The following tests are about the conditions of runs.

/// Sets a value in every case. `key` points into the provenance, or into the last record if it
/// begins with "/decoder/".
void set(ResultSet& results, const std::string& key, const json& value) {
  const json::json_pointer where(key);
  for (CaseResult& c : results.cases) {
    auto& last = std::get<record::Run>(c.summary.last);
    json object =
        key.starts_with("/decoder/") ? record::write(last) : record::write(c.provenance());
    object[where] = value;
    if (key.starts_with("/decoder/")) {
      last = record::Run::table().read(object);
    } else {
      c.shared_provenance =
          std::make_shared<const record::Provenance>(record::Provenance::table().read(object));
    }
  }
}

std::string reason_of(const std::vector<GateRow>& rows, const std::string& what) {
  for (const GateRow& row : rows) {
    if (row.what == what) return row.reason;
  }
  return "no row " + what;
}

TEST_F(GateTest, OtherConditionsAreInvalidAndNamed) {
  struct Condition {
    std::string key;
    json before, now;
    std::string reason;
  };
  const std::vector<Condition> conditions = {
      {"/decoder/options/max_symbols", 10, 5, "other option max_symbols: 10, now 5"},
      {"/decoder/options/window", 1, 8, "other option window: 1, now 8"},
      {"/decoder/options/lm", nullptr, {{"alpha", 0.3}}, "other option lm: null, now"},
      {"/decoder/options/lm/alpha", 0.1, 0.3, "other option lm.alpha: 0.1, now 0.3"},
      {"/decoder/name", "frame_looping", "label_looping", "other decoder"},
      {"/config/sort", "duration_desc", "shuffle", "other sort"},
      {"/config/encoder_graphs", true, false, "other encoder_graphs: true, now false"},
      {"/config/confidence", nullptr, {{"method", "entropy"}}, "other confidence: null, now"},
      {"/libtorch", "2.11.0", "2.12.0", R"(other libtorch: "2.11.0", now "2.12.0" (--allow)"},
      {"/cudnn", 91002, 91100, "other cudnn"},
      {"/cuda_driver", "13.0", "13.1", "(--allow driver)"},
  };
  for (const auto& [key, before, now, reason] : conditions) {
    ResultSet old = results(1), current = results(2);
    set(old, key, before);
    set(current, key, now);
    const auto rows = gate(old, current);
    EXPECT_EQ(of(rows, "case"), Verdict::invalid) << key;
    EXPECT_HAS(reason_of(rows, "case"), reason);
    set(current, key, before);
    EXPECT_EQ(worst(gate(old, current)), Verdict::pass) << key;
  }
}

/// `--resume` joins rounds of several invocations. The last one alone has the last provenance.
TEST_F(GateTest, EachInvocationWhoseRoundsCountIsExamined) {
  const ResultSet old = results(1);
  std::string lines;
  for (const char* id : {"p", "q"}) {
    json about = record::write(old.provenance);
    about["provenance_id"] = id;
    const bool is_last = id == std::string("q");
    about["cudnn"] = is_last ? 91002 : 90000;
    if (!is_last) about["rtfx"]["build_type"] = "Debug";
    lines += to_line(about);
  }
  for (int round = 0; round < 10; ++round) {
    json line = record("label", round, 1);
    line["provenance_id"] = round < 9 ? "p" : "q";
    lines += to_line(line);
  }
  const ResultSet joined = read_results(write("joined/journal.jsonl", lines));
  const CaseResult& c = joined.cases.at(0);
  EXPECT_EQ(c.provenance().provenance_id.value_or(""), "q");
  EXPECT_HAS(unfit(c), "Debug");
  ResultSet other = results(2);
  set(other, "/cudnn", 91002);
  const auto found = condition_differences(*other.find("m/d/label/b1/fp32"), c);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "other cudnn: 91002, now 90000");
}

TEST_F(GateTest, OtherSteadySecondsAreInvalidInTheModeThroughput) {
  ResultSet old = results(1), current = results(2);
  const auto overlap = [](ResultSet& set, double pass_seconds) {
    record::Pipeline pipeline;
    pipeline.in_flight = 2;
    pipeline.audio = "memory";
    pipeline.pass_seconds = std::vector<Number>{Number(pass_seconds)};
    for (CaseResult& c : set.cases) std::get<record::Run>(c.summary.last).pipeline = pipeline;
  };
  set(old, "/config/protocol/steady_seconds", 30);
  set(current, "/config/protocol/steady_seconds", 0);
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);  // no pass is repeated region by region
  overlap(old, 1);
  overlap(current, 2);
  EXPECT_HAS(reason_of(gate(old, current), "case"), "other protocol.steady_seconds: 30, now 0");
  set(current, "/config/protocol/steady_seconds", 30);
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
  set(current, "/config/protocol/steady_seconds", nullptr);  // a journal that lacks it
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
}

TEST_F(GateTest, AGradeOfAnotherReleaseIsAUserError) {
  const auto complaint = [&](const json& object) {
    const auto journal = write("other/journal.jsonl", to_line(object));
    return test::user_error([&] { read_results(journal); });
  };
  json run = record("label", 0, 1);
  run["isolated"] = {
      {"grade", "perfect"}, {"grades", json::object()}, {"first_difference", nullptr}};
  EXPECT_HAS(complaint(run), "journal.jsonl:1: unknown grade 'perfect'");
  EXPECT_HAS(complaint({{"kind", "provenance"},
                        {"provenance_id", "p"},
                        {"config", {{"verify", {{"required", {{"fp32", "perfect"}}}}}}}}),
             "journal.jsonl:1: unknown grade 'perfect'");
}

TEST_F(GateTest, AnotherRevisionIsWhatIsJudgedAndMayHaveNewOptions) {
  ResultSet old = results(1), current = results(2);
  set(old, "/rtfx/revision", "a");
  set(current, "/rtfx/revision", "b");
  set(old, "/decoder/options", {{"max_symbols", 10}});
  set(current, "/decoder/options", {{"max_symbols", 10}, {"new_one", true}});
  set(current, "/libtorch", "2.11.0");  // unknown in the older journal
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
}

TEST_F(GateTest, FilesOfOptionsAreComparedByTheirContents) {
  ResultSet old = results(1), current = results(2);
  set(old, "/decoder/options/lm/path", "/here/lm.arpa");
  set(current, "/decoder/options/lm/path", "/there/lm.arpa");
  set(old, "/decoder_files", {{"/here/lm.arpa", "s"}});
  set(current, "/decoder_files", {{"/there/lm.arpa", "s"}});
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
  set(current, "/decoder_files", {{"/there/lm.arpa", "t"}});
  EXPECT_HAS(reason_of(gate(old, current), "case"), "lm.path");
  set(current, "/decoder/options/lm/path", "/here/lm.arpa");  // the file was changed in place
  set(current, "/decoder_files", {{"/here/lm.arpa", "t"}});
  EXPECT_HAS(reason_of(gate(old, current), "case"),
             "other option lm.path: the checksum of \"/here/lm.arpa\" differs");
  set(current, "/decoder_files", json::object());  // a journal that lacks it
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
}

TEST_F(GateTest, TheSourceOfADecoderInPythonMayBeAllowed) {
  ResultSet old = results(1), current = results(2);
  for (auto [set_of, path, sum] :
       {std::tuple(&old, "base/g.py", "s"), {&current, "change/g.py", "t"}}) {
    set(*set_of, "/decoder/name", "python");
    set(*set_of, "/decoder/options/file", path);
    set(*set_of, "/decoder_files", {{path, sum}});
  }
  const std::string other = R"(other option file: "base/g.py", now "change/g.py")";
  EXPECT_HAS(reason_of(gate(old, current), "case"), other + " (--allow decoder)");
  const auto allowing = [&] {
    return rtfx::gate(std::span(&old, 1), current, {.allowed = {"decoder"}, .drift = 0});
  };
  EXPECT_EQ(worst(allowing()), Verdict::pass);
  EXPECT_HAS(reason_of(allowing(), "case"), "allowed: " + other);
  set(current, "/decoder/options/class", "Other");
  set(old, "/decoder/options/class", "Greedy");
  EXPECT_HAS(reason_of(allowing(), "case"), "other option class");
  set(current, "/decoder/options/class", "Greedy");
  set(current, "/decoder_files", json::object());  // nobody knows whether it is another source
  EXPECT_EQ(worst(allowing()), Verdict::invalid);
}

TEST_F(GateTest, TimesMayGrowByTheirTolerance) {
  const auto with_times = [&](uint64_t seed, double longer) {
    ResultSet set = results(seed);
    for (CaseResult& c : set.cases) {
      for (record::Round& round : c.summary.rounds) {
        auto& run = std::get<record::Run>(round);
        run.metrics["batch_ms.p50"] =
            Nullable<Number>(Number((100 + static_cast<double>(run.round)) * longer));
      }
    }
    return set;
  };
  const auto verdict = [&](double longer) {
    const auto rows =
        gate(with_times(1, 1), with_times(2, longer), {{"batch_ms.p50", 0.5}}, /*drift=*/0.01);
    return of(rows, "batch_ms.p50");
  };
  EXPECT_EQ(verdict(1.4), Verdict::pass);
  EXPECT_EQ(verdict(1.9), Verdict::regressed);
}

/// Energy has only one value in a run, whatever the number of rounds.
TEST_F(GateTest, FiveBaselinesJudgeAMetricWithOneValue) {
  const auto with_energy = [&](uint64_t seed, double joules) {
    ResultSet set = results(seed);
    for (CaseResult& c : set.cases) {
      auto& first = std::get<record::Run>(c.summary.rounds.front());
      first.metrics["energy.joules_per_hour"] = Nullable<Number>(Number(joules));
    }
    return set;
  };
  std::vector<ResultSet> baselines;
  for (const double joules : {1000, 1005, 995, 1002, 998})
    baselines.push_back(with_energy(baselines.size() + 1, joules));
  const auto verdict = [&](double joules, size_t count, std::optional<double> drift = {}) {
    const auto rows = rtfx::gate(std::span(baselines).first(count), with_energy(9, joules),
                                 {.tolerances = {{"energy.joules_per_hour", 0.1}}, .drift = drift});
    return of(rows, "energy.joules_per_hour");
  };
  EXPECT_EQ(verdict(1004, 5), Verdict::pass);
  EXPECT_EQ(verdict(1300, 5), Verdict::regressed);
  EXPECT_EQ(verdict(1300, 4), Verdict::inconclusive);
  EXPECT_EQ(verdict(1004, 5, 0.003), Verdict::pass);
  EXPECT_EQ(verdict(1004, 5, 0.1), Verdict::inconclusive);  // a given drift is the least spread
}

/// Its spread of 0 would say that runs do not differ.
TEST_F(GateTest, ABaselineThatIsGivenTwiceIsInvalid) {
  const std::vector<ResultSet> baselines(5, results(1));
  const auto rows = rtfx::gate(baselines, results(2));
  EXPECT_EQ(worst(rows), Verdict::invalid);
  EXPECT_EQ(rows.front().reason, "is given as a baseline twice");
}

TEST_F(GateTest, StreamsAreNotJudged) {
  ResultSet streams = results(1);
  streams.streams = std::move(streams.cases);
  streams.cases.clear();
  const auto rows = gate(streams, results(2));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().verdict, Verdict::invalid);
  EXPECT_EQ(rows.front().reason, "holds streams alone, which the gate does not judge");
}

TEST_F(GateTest, WhatMayDifferIsAllowedByName) {
  ResultSet old = results(1), current = results(2);
  set(old, "/libtorch", "2.11.0");
  set(current, "/libtorch", "2.12.0");
  for (CaseResult& c : current.cases) {
    for (record::Round& round : c.summary.rounds) std::get<record::Run>(round).wer.version = 2;
  }
  EXPECT_HAS(reason_of(gate(old, current), "case"), "libtorch");
  const GateOptions some = {.allowed = {"libtorch"}, .drift = 0};
  EXPECT_HAS(reason_of(rtfx::gate(std::span(&old, 1), current, some), "case"),
             R"(other scorer: "none version 1", now "none version 2" (--allow scorer))");
  const GateOptions both = {.allowed = {"libtorch", "scorer"}, .drift = 0};
  const auto rows = rtfx::gate(std::span(&old, 1), current, both);
  EXPECT_EQ(worst(rows), Verdict::pass);
  EXPECT_HAS(reason_of(rows, "case"), "allowed: other libtorch");
  EXPECT_HAS(reason_of(rows, "wer"), "not compared");
}

TEST_F(GateTest, FewerWordErrorsByAnotherScorerExcuseNoOtherTokens) {
  ResultSet current = results(2);
  const auto judged = [&] {
    const ResultSet old = results(1);
    return rtfx::gate(std::span(&old, 1), current, {.allowed = {"scorer"}, .drift = 0});
  };
  for (CaseResult& c : current.cases) {
    for (record::Round& round : c.summary.rounds) {
      auto& run = std::get<record::Run>(round);
      run.hypotheses_sha256 = "other";
      run.tokens_sha256 = "other";
      run.wer.wer = Number(0.05);
    }
  }
  EXPECT_EQ(of(judged(), "results"), Verdict::pass);
  for (CaseResult& c : current.cases) {
    for (record::Round& round : c.summary.rounds) std::get<record::Run>(round).wer.version = 2;
  }
  EXPECT_EQ(of(judged(), "results"), Verdict::correctness);
  EXPECT_HAS(reason_of(judged(), "results"), "other tokens or frames");
}

/// `rtfx run` exits with 13 for both. Workflows leave the verdict to the gate.
TEST_F(GateTest, ResultsThatFailTheirOwnRunAreWrongThoughTheBaselineHasTheSame) {
  ResultSet current = results(2);
  for (CaseResult& c : current.cases) {
    for (record::Round& round : c.summary.rounds)
      std::get<record::Run>(round).isolated.emplace().grade = "different";
  }
  const auto rows = gate(current, current);
  EXPECT_EQ(of(rows, "results"), Verdict::correctness);
  EXPECT_HAS(reason_of(rows, "results"),
             "graded different against the isolated pass, and exact is required");
}

TEST_F(GateTest, WordErrorsAboveThoseInFp32AreJudgedAsTheConfigurationSays) {
  ResultSet current = results(2);
  CaseResult other = *current.find("m/d/label/b1/fp32");
  auto& last = std::get<record::Run>(other.summary.last);
  last.case_name = std::string("m/d/label/b1/bf16");
  last.wer.wer = Number(0.102);
  current.cases.push_back(other);
  const auto rows = [&](double allowed) {
    set(current, "/config/verify/wer_above_fp32", allowed);
    current.provenance = *current.cases.front().shared_provenance;
    return gate(current, current);
  };
  EXPECT_EQ(worst(rows(1)), Verdict::pass);
  EXPECT_EQ(worst(rows(0.001)), Verdict::correctness);
  const auto judged = rows(0.001);
  EXPECT_TRUE(std::ranges::any_of(judged, [](const GateRow& row) {
    return row.case_name == "m/d/label/b1/bf16" &&
           row.reason.starts_with("0.20 points more word errors than in fp32");
  }));
}

TEST_F(GateTest, OtherStandInTextsAreTheSameData) {
  ResultSet old = results(1), current = results(2);
  for (CaseResult& c : current.cases)
    std::get<record::Run>(c.summary.last).dataset.stand_in = Nullable<std::string>();
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
}

/// Sets one of the conditions to `value` in every round.
void set_condition(ResultSet& results, const char* key, const json& value) {
  for (CaseResult& c : results.cases) {
    for (record::Round& round : c.summary.rounds) {
      auto& run = std::get<record::Run>(round);
      json conditions = run.conditions ? record::write(*run.conditions) : json::object();
      conditions[key] = value;
      run.conditions = record::MachineConditions::table().read(conditions);
    }
  }
}

TEST_F(GateTest, SpeedsUnderOtherConditionsAreInconclusiveAndTheReasonIsNamed) {
  struct Condition {
    std::string key;
    json before, now, near;  // `near`: too close to matter
    std::string reason;
  };
  const std::vector<Condition> conditions = {
      {"/cpu/model_number", 1, 17, 1, "CPU model number 1, now 17"},
      {"/cpu/family", 25, 26, 25, "CPU family 25, now 26"},
      {"/cpu/cache_kib", 512, 1024, 512, "CPU cache, KiB 512, now 1024"},
      {"/cpu/hypervisor", "KVMKVMKVM", nullptr, "KVMKVMKVM", "hypervisor \"KVMKVMKVM\", now null"},
      {"/cpu/clock_mhz", 2600.0, 3400.0, 2650.0, "CPU clock, MHz 2600, now 3400"},
      {"/cpu/calibration_ms", 1.5, 2.0, 1.6, "calibration of the CPU, ms 1.5, now 2"},
      {"/cpu/load_average", 0.99, 3.59, 1.5, "load average 0.99, now 3.59"},
  };
  for (const auto& [key, before, now, near, reason] : conditions) {
    for (const double slower : {0.5, 1.0, 2.2}) {  // whatever the speeds are
      ResultSet old = results(1), current = results(2, slower);
      set(old, key, before);
      set(current, key, now);
      const auto rows = gate(old, current);
      EXPECT_EQ(of(rows, "rtfx.decode"), Verdict::inconclusive) << key;
      EXPECT_EQ(worst(rows), Verdict::inconclusive) << key;
      EXPECT_HAS(reason_of(rows, "rtfx.total"), "other conditions: " + reason);
      set(current, key, near);
      EXPECT_EQ(of(gate(old, current), "rtfx.decode"),
                slower > 1 ? Verdict::regressed : Verdict::pass)
          << key;
    }
  }
}

TEST_F(GateTest, WrongResultsAreWrongUnderAnyConditions) {
  ResultSet old = results(1), current = results(2);
  set(old, "/cpu/model_number", 1);
  set(current, "/cpu/model_number", 17);
  for (CaseResult& c : current.cases) {
    for (record::Round& round : c.summary.rounds) {
      std::get<record::Run>(round).hypotheses_sha256 = "other";
      std::get<record::Run>(round).tokens_sha256 = "other";
    }
  }
  EXPECT_EQ(worst(gate(old, current)), Verdict::correctness);
}

TEST_F(GateTest, TheCpusThatOthersUsedCountInPlaceOfTheLoadAverage) {
  ResultSet old = results(1), current = results(2, 1.5);
  set(old, "/cpu/load_average", 0.1);
  set(current, "/cpu/load_average", 2.1);  // caused by our own earlier run
  set_condition(old, "other_cpus", 0.05);
  set_condition(current, "other_cpus", 0.1);
  EXPECT_EQ(of(gate(old, current), "rtfx.decode"), Verdict::regressed);
  set_condition(current, "other_cpus", 0.9);
  const auto rows = gate(old, current);
  EXPECT_EQ(of(rows, "rtfx.decode"), Verdict::inconclusive);
  EXPECT_HAS(reason_of(rows, "rtfx.decode"), "CPUs that other programs used 0.05, now 0.90");
}

TEST_F(GateTest, OtherClocksOfTheGpuAreInconclusive) {
  ResultSet old = results(1), current = results(2, 1.5);
  set_condition(old, "sm_clock_mhz", {{"mean", 1980}, {"min", 1900}, {"device_max", 1980}});
  set_condition(current, "sm_clock_mhz", {{"mean", 1700}, {"min", 1500}, {"device_max", 1980}});
  EXPECT_HAS(reason_of(gate(old, current), "rtfx.decode"), "clock of the GPU, MHz 1980, now 1700");
  set_condition(current, "sm_clock_mhz", {{"mean", 1950}, {"min", 1500}, {"device_max", 1980}});
  EXPECT_EQ(of(gate(old, current), "rtfx.decode"), Verdict::regressed);
}

/// `compare` and the gate must leave the same suspect rounds out. These rounds are slow, so
/// counting them would give another ratio.
TEST_F(GateTest, GateAndCompareCountTheSameRounds) {
  const ResultSet old = results(1);
  ResultSet current = results(2);
  for (CaseResult& c : current.cases) {
    for (size_t r = 0; r < 4; ++r) {
      disturb(c, r);
      auto& figures = std::get<record::Run>(c.summary.rounds[r]).metrics;
      for (const char* metric : {"rtfx.decode", "rtfx.total"})
        figures[metric] = Nullable<Number>(Number(0.4 * static_cast<double>(*figures[metric])));
    }
  }
  const std::string name = "m/d/label/b1/fp32";
  const auto rows = gate(old, current, {{"rtfx.decode", 0.03}, {"rtfx.total", 0.02}}, std::nullopt);
  const auto row = std::ranges::find_if(
      rows, [&](const GateRow& r) { return r.case_name == name && r.what == "rtfx.decode"; });
  ASSERT_NE(row, rows.end());
  EXPECT_NEAR(row->change->estimate, 1, 0.01);
  EXPECT_EQ(row->rounds, "10 of 10 rounds -> 6 of 10 rounds, 4 suspect left out");
  for (const MetricChange& change :
       metric_changes(old, *old.find(name), current, *current.find(name), /*paired=*/false)) {
    if (std::string_view(change.metric->key) != "rtfx.decode") continue;
    EXPECT_EQ(change.change.estimate, row->change->estimate);
    EXPECT_EQ(change.change.low, row->change->low);
    EXPECT_EQ(change.to, *row->current);
  }
  const json compared = comparison_json(old, current)["cases"][1];
  EXPECT_EQ(compared["rounds_b"], (json{{"counted", 6}, {"of", 10}}));
}

}  // namespace
}  // namespace rtfx
