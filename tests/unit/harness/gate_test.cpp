#include "harness/results/gate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/results/changes.h"
#include "harness/results/journal.h"
#include "tests/unit/harness/gate_fixture.h"

namespace rtfx {
namespace {

using nlohmann::json;
using test::disturb;
using test::GateTest;
using test::reason_of;
using test::set;

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

/// 0.355 - 0.354 is rounded to more than 0.001.
TEST_F(GateTest, WordErrorsMayGrowByTheirWholeTolerance) {
  const auto with_errors = [&](uint64_t seed, double wer) {
    ResultSet set = results(seed);
    for (CaseResult& c : set.cases) {
      for (record::Round& round : c.summary.rounds)
        std::get<record::Run>(round).wer.wer = Number(wer);
    }
    return set;
  };
  const auto verdict = [&](double wer) {
    return of(gate(with_errors(1, 0.354), with_errors(2, wer), {{"wer", 0.001}}), "wer");
  };
  EXPECT_EQ(verdict(0.355), Verdict::pass);
  EXPECT_EQ(verdict(0.35501), Verdict::correctness);
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

/// The mark of the table is about the spread that it shows, which is that of all rounds.
TEST_F(GateTest, ASpreadOfSuspectRoundsAloneIsNotNoisyForTheGate) {
  ResultSet current = results(2, 1.5);
  for (CaseResult& c : current.cases) {
    for (size_t r = 0; r < 4; ++r) {
      disturb(c, r);
      std::get<record::Run>(c.summary.rounds[r]).metrics["rtfx.total"] =
          Nullable<Number>(Number(1));
    }
    EXPECT_TRUE(c.summary.noisy());
    EXPECT_FALSE(
        c.summary.varies_too_much(counted_values(find_metric("rtfx.total", ""), c.summary)));
  }
  EXPECT_EQ(of(gate(results(1), current), "rtfx.total"), Verdict::regressed);
}

TEST_F(GateTest, TheTableAndTheGateHaveOneLimitOfNoise) {
  ResultSet current = results(2, 1.5);
  for (CaseResult& c : current.cases) c.summary.cv_max = 1e-4;
  EXPECT_TRUE(current.cases.front().summary.noisy());
  const auto rows = gate(results(1), current);
  EXPECT_EQ(of(rows, "rtfx.total"), Verdict::inconclusive);
  EXPECT_HAS(reason_of(rows, "rtfx.total"), "NOISY");
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
