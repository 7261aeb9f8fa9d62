#include "harness/results/comparability.h"

#include <gtest/gtest.h>

#include "tests/unit/harness/gate_fixture.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::reason_of;
using test::set;
using test::set_condition;

class ComparabilityTest : public test::GateTest {};

TEST_F(ComparabilityTest, OtherSharesOfTheCpusAreNotCompared) {
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

TEST_F(ComparabilityTest, RunsThatCountPaddingAreNotComparedWithThoseThatDoNot) {
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

TEST_F(ComparabilityTest, OtherConditionsAreInvalidAndNamed) {
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

/// A setting that a gate compares also ends the history of a case.
TEST_F(ComparabilityTest, ResultsOfOtherConditionsBelongToOtherHistories) {
  struct Condition {
    std::string key;
    json before, now;
  };
  const std::vector<Condition> conditions = {
      {"/decoder/options/max_symbols", 10, 5},
      {"/decoder/name", "frame_looping", "label_looping"},
      {"/config/sort", "duration_desc", "shuffle"},
      {"/config/protocol/seed", 1, 2},
      {"/config/encoder", "reference", "fused"},
      {"/config/encoder_graphs", true, false},
      {"/config/confidence", nullptr, {{"method", "entropy"}}},
      {"/libtorch", "2.11.0", "2.12.0"},
      {"/device/name", "Some CPU", "Other CPU"},
      {"/cpu/threads", 4, 8},
      {"/shards/count", 1, 2},
  };
  for (const auto& [key, before, now] : conditions) {
    ResultSet old = results(1), current = results(2);
    for (ResultSet* both : {&old, &current}) set(*both, "/config/sort", "shuffle");
    const auto differ = [&] {
      const CaseResult &a = old.cases.front(), &b = current.cases.front();
      const bool by_name = conditions_of(a) != conditions_of(b);
      EXPECT_EQ(condition_differences(a, b).empty(), !by_name) << key;
      return by_name;
    };
    set(old, key, before);
    set(current, key, now);
    EXPECT_TRUE(differ()) << key;
    set(current, key, before);
    EXPECT_FALSE(differ()) << key;
  }
}

TEST_F(ComparabilityTest, TheSeedIsAConditionOfAShuffledOrderAlone) {
  ResultSet old = results(1), current = results(2);
  set(old, "/config/protocol/seed", 1);
  set(current, "/config/protocol/seed", 2);
  const auto differ = [&] {
    const CaseResult &a = old.cases.front(), &b = current.cases.front();
    EXPECT_EQ(condition_differences(a, b).empty(), conditions_of(a) == conditions_of(b));
    return conditions_of(a) != conditions_of(b);
  };
  for (const auto& [order, expected] : {std::pair("shuffle", true), {"duration_desc", false}}) {
    for (ResultSet* both : {&old, &current}) set(*both, "/config/sort", order);
    EXPECT_EQ(differ(), expected) << order;
  }
}

/// `--resume` joins rounds of several invocations. The last one alone has the last provenance.
TEST_F(ComparabilityTest, EachInvocationWhoseRoundsCountIsExamined) {
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

TEST_F(ComparabilityTest, OtherSteadySecondsAreInvalidInTheModeThroughput) {
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

TEST_F(ComparabilityTest, AnotherRevisionIsWhatIsJudgedAndMayHaveNewOptions) {
  ResultSet old = results(1), current = results(2);
  set(old, "/rtfx/revision", "a");
  set(current, "/rtfx/revision", "b");
  set(old, "/decoder/options", {{"max_symbols", 10}});
  set(current, "/decoder/options", {{"max_symbols", 10}, {"new_one", true}});
  set(current, "/libtorch", "2.11.0");  // unknown in the older journal
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
}

TEST_F(ComparabilityTest, FilesOfOptionsAreComparedByTheirContents) {
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

TEST_F(ComparabilityTest, TheSourceOfADecoderInPythonMayBeAllowed) {
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

TEST_F(ComparabilityTest, OtherStandInTextsAreTheSameData) {
  ResultSet old = results(1), current = results(2);
  for (CaseResult& c : current.cases)
    std::get<record::Run>(c.summary.last).dataset.stand_in = Nullable<std::string>();
  EXPECT_EQ(worst(gate(old, current)), Verdict::pass);
}

TEST_F(ComparabilityTest, SpeedsUnderOtherConditionsAreInconclusiveAndTheReasonIsNamed) {
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

TEST_F(ComparabilityTest, TheCpusThatOthersUsedCountInPlaceOfTheLoadAverage) {
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

TEST_F(ComparabilityTest, OtherClocksOfTheGpuAreInconclusive) {
  ResultSet old = results(1), current = results(2, 1.5);
  set_condition(old, "sm_clock_mhz", {{"mean", 1980}, {"min", 1900}, {"device_max", 1980}});
  set_condition(current, "sm_clock_mhz", {{"mean", 1700}, {"min", 1500}, {"device_max", 1980}});
  EXPECT_HAS(reason_of(gate(old, current), "rtfx.decode"), "clock of the GPU, MHz 1980, now 1700");
  set_condition(current, "sm_clock_mhz", {{"mean", 1950}, {"min", 1500}, {"device_max", 1980}});
  EXPECT_EQ(of(gate(old, current), "rtfx.decode"), Verdict::regressed);
}

}  // namespace
}  // namespace rtfx
