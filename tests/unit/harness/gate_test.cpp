#include "harness/results/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harness/results/journal.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using nlohmann::json;

TEST(Judge, ImprovementNeverFails) {
  EXPECT_EQ(judge({1.5, 1.4, 1.6}, 0.02, 0.01).verdict, Verdict::pass);
  EXPECT_EQ(judge({1.5, 1.01, 2.0}, 0.0, 0.5).verdict, Verdict::pass);  // within the noise too
}

TEST(Judge, TheIntervalAgainstTheTolerance) {
  EXPECT_EQ(judge({1.0, 0.985, 1.015}, 0.02, 0.01).verdict, Verdict::pass);
  EXPECT_EQ(judge({0.99, 0.975, 1.005}, 0.02, 0.01).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.95, 0.94, 0.96}, 0.02, 0.01).verdict, Verdict::regressed);
  EXPECT_EQ(judge({0.97, 0.96, 0.981}, 0.02, 0.01).verdict, Verdict::inconclusive);
}

TEST(Judge, AToleranceBelowTheNoiseIsRefused) {
  const Judgement same = judge({1.0, 0.999, 1.001}, 0.01, 0.03);
  EXPECT_EQ(same.verdict, Verdict::inconclusive);
  EXPECT_HAS(same.reason, "tolerance of 1 % is below the noise floor of 3 %");
  EXPECT_EQ(judge({0.98, 0.975, 0.985}, 0.01, 0.03).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge({0.5, 0.48, 0.52}, 0.01, 0.03).verdict, Verdict::regressed);
}

TEST(Judge, OneRoundIsInconclusive) {
  const Interval unknown = unpaired_ratio({10}, {5});
  EXPECT_EQ(judge(unknown, 0.02, expected_noise_floor({10})).verdict, Verdict::inconclusive);
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

  /// Journal of two decoders and the first one's A/A control, with 0.5 % of noise; the second takes
  /// `slower` times as long.
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
  EXPECT_GE(passed, 60);  // and most gates do conclude
}

TEST_F(GateTest, OtherSharesOfTheCpusAreNotCompared) {
  const auto with_cpu = [&](uint64_t seed, const json& cpu) {
    ResultSet set = results(seed);
    for (CaseResult& c : set.cases) c.provenance["cpu"] = cpu;
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
  // A journal of an earlier release does not say.
  EXPECT_EQ(of(gate(with_cpu(1, {{"threads", 4}}), with_cpu(2, cpu)), "results"), Verdict::pass);
}

TEST_F(GateTest, RunsThatCountPaddingAreNotComparedWithThoseThatDoNot) {
  const ResultSet baseline = results(1);
  ResultSet current = results(2);
  for (CaseResult& c : current.cases) {
    for (json& round : c.rounds) round["regions"]["pad"] = {{"host_seconds", 0.1}};
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
  EXPECT_TRUE(measured_noise_floor(with, "m/d/b1/fp32", "rtfx.decode"));
  EXPECT_FALSE(measured_noise_floor(without, "m/d/b1/fp32", "rtfx.decode"));
}

TEST_F(GateTest, ClearlySlowerIsRegressedThoughTheGateIsTight) {
  EXPECT_EQ(of(gate(results(1), results(2, 2.0), {{"rtfx.decode", 1e-4}}), "rtfx.decode"),
            Verdict::regressed);
  EXPECT_EQ(of(gate(results(1), results(2), {{"rtfx.decode", 1e-4}}), "rtfx.decode"),
            Verdict::inconclusive);
}

TEST_F(GateTest, SuspectRoundsAreLeftOutWhereThreeAreClean) {
  ResultSet current = results(2, 1.1);
  for (CaseResult& c : current.cases) {
    for (size_t r = 0; r < 7; ++r) c.rounds[r]["suspect"] = {"clock"};
  }
  EXPECT_EQ(of(gate(results(1), current), "rtfx.decode"), Verdict::regressed);
  for (CaseResult& c : current.cases) c.rounds[7]["suspect"] = {"clock"};
  const auto rows = gate(results(1), current);
  EXPECT_EQ(of(rows, "rtfx.decode"), Verdict::inconclusive);
}

}  // namespace
}  // namespace rtfx
