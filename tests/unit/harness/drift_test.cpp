// Tests how far runs at different times differ, and the verdicts of a gate on them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>

#include "harness/results/gate.h"
#include "harness/results/results.h"

namespace rtfx {
namespace {

/// Simulates rounds of runs. The machine's speed in each run differs by a factor of
/// exp(drift * normal).
class Machine {
 public:
  Machine(uint64_t seed, double drift) : engine_(seed), drift_(drift) {}

  /// Returns ten rounds with 0.5 % of noise.
  std::vector<double> run(double speed = 1) {
    std::vector<double> rounds(10);
    const double offset = drift_ * normal_(engine_);
    for (double& round : rounds) round = speed * std::exp(offset + 0.005 * normal_(engine_));
    return rounds;
  }

  std::vector<std::vector<double>> runs(int count) {
    std::vector<std::vector<double>> list;
    for (int i = 0; i < count; ++i) list.push_back(run());
    return list;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
  double drift_;
};

constexpr int kRepetitions = 2000;

/// Returns the share of repetitions whose interval leaves the true ratio out.
double missed(double drift, int baselines, std::optional<double> given = {}) {
  Machine machine(7, drift);
  int missed = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const Interval ratio = runs_ratio(machine.runs(baselines), machine.run(0.9), given);
    missed += ratio.low > 0.9 || ratio.high < 0.9;
  }
  return static_cast<double>(missed) / kRepetitions;
}

TEST(Drift, TheIntervalHoldsTheTruthUnderDrift) {
  EXPECT_GT(missed(kRunDrift, 1, 0), 0.5);  // the interval of the rounds alone is too narrow
  for (const int baselines : {1, 2, 4}) EXPECT_LT(missed(kRunDrift, baselines), 0.06);
  // Five runs or more show any drift, also one that is larger than usual.
  for (const double drift : {0.002, kRunDrift, 0.04}) {
    EXPECT_LT(missed(drift, 6), 0.06);
    EXPECT_GT(missed(drift, 6), 0.02);
  }
}

TEST(Drift, SeveralRunsOfASteadyMachineNarrowTheInterval) {
  Machine machine(3, 0.001);
  const auto before = machine.runs(8);
  const std::vector<double> now = machine.run();
  const double one = runs_ratio({before[0]}, now).relative_half_width();
  EXPECT_NEAR(one, 1.96 * kRunDrift * std::sqrt(2.0), 0.002);
  EXPECT_LT(runs_ratio(before, now).relative_half_width(), one / 3);
}

/// Returns the shares of verdicts on a run that is slower by `loss`.
std::map<Verdict, double> power(double loss, int baselines, double drift, double tolerance) {
  Machine machine(11, drift);
  std::map<Verdict, double> shares;
  for (int i = 0; i < kRepetitions; ++i) {
    const Interval gain = runs_ratio(machine.runs(baselines), machine.run(1 - loss));
    const double floor = noise_floor({1, gain.low / gain.estimate, gain.high / gain.estimate});
    shares[judge(gain, tolerance, floor).verdict] += 1.0 / kRepetitions;
  }
  return shares;
}

/// Checks the table of docs/background/statistics.md.
TEST(Drift, PowerOfTheGate) {
  const auto check = [](double loss, int baselines, double drift, double tolerance, double pass,
                        double regressed) {
    auto shares = power(loss, baselines, drift, tolerance);
    EXPECT_NEAR(shares[Verdict::pass], pass, 0.04)
        << loss << ' ' << baselines << ' ' << drift << ' ' << tolerance;
    EXPECT_NEAR(shares[Verdict::regressed], regressed, 0.04)
        << loss << ' ' << baselines << ' ' << drift << ' ' << tolerance;
  };
  check(0, 1, 0.01, 0.05, 0.95, 0);
  check(0.03, 1, 0.01, 0.05, 0.31, 0);
  check(0.05, 1, 0.01, 0.05, 0.03, 0.02);
  check(0.1, 1, 0.01, 0.05, 0, 0.96);
  check(0, 8, 0.01, 0.05, 0.98, 0);
  check(0.03, 8, 0.01, 0.05, 0.39, 0);
  check(0.1, 8, 0.01, 0.05, 0, 0.99);
  check(0, 5, 0.003, 0.02, 0.97, 0);
  check(0.03, 5, 0.003, 0.02, 0, 0.55);
  check(0.05, 5, 0.003, 0.02, 0, 1);
}

// Nothing changed between the recorded runs of the following tests: they have one revision and one
// kind of machine.

/// Returns pairs of runs from tests/data/repeated. Both runs of a pair have one configuration and
/// build, and were minutes apart on one H200. kRunDrift was taken from the pairs of `build`
/// "before", and is tested on those of "after".
std::vector<std::pair<ResultSet, ResultSet>> recorded_pairs(const std::string& build) {
  std::vector<std::pair<ResultSet, ResultSet>> pairs;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/repeated")) {
    std::string second = entry.path().string();
    const size_t at = second.find("_1.jsonl");
    if (at == std::string::npos || second.find("_" + build) == std::string::npos) continue;
    pairs.emplace_back(read_results(entry.path()), read_results(second.replace(at, 2, "_2")));
  }
  return pairs;
}

struct Count {
  double rows = 0, regressed = 0, unequal = 0;

  void add(const std::vector<GateRow>& found) {
    for (const GateRow& row : found) {
      EXPECT_NE(row.verdict, Verdict::invalid) << row.case_name << ": " << row.reason;
      if (!row.change) continue;
      ++rows;
      regressed += row.verdict == Verdict::regressed;
      unequal += row.change->low > 1 || row.change->high < 1;
    }
  }
};

/// Returns the share of recorded pairs whose interval leaves 1 out, although nothing changed.
double false_changes(const std::string& build, const std::string& metric, double drift) {
  double rows = 0, unequal = 0;
  for (const auto& [a, b] : recorded_pairs(build)) {
    for (const GateRow& row : gate(std::span(&a, 1), b, {.drift = drift})) {
      if (row.what != metric || !row.change) continue;
      ++rows;
      unequal += row.change->low > 1 || row.change->high < 1;
    }
  }
  EXPECT_EQ(rows, 121);
  return unequal / rows;
}

/// Checks the table of docs/background/statistics.md, "Drift".
TEST(Drift, IsTakenFromTheRunsOfOneBuildAndTestedOnThoseOfAnother) {
  EXPECT_GT(false_changes("before", "rtfx.total", 0.8 * kRunDrift), 0.05);
  EXPECT_LT(false_changes("before", "rtfx.total", 1.2 * kRunDrift), 0.05);
  EXPECT_NEAR(false_changes("after", "rtfx.total", kRunDrift), 0.01, 0.005);
  EXPECT_NEAR(false_changes("after", "rtfx.decode", kRunDrift), 0.03, 0.005);
}

TEST(Drift, RecordedRunsOfTheSameBuildAreNotRegressed) {
  Count now, without_drift;
  for (const auto& [a, b] : recorded_pairs("after")) {
    for (const auto& [old, current] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      now.add(gate(std::span(old, 1), *current));
      without_drift.add(gate(std::span(old, 1), *current, {.drift = 0}));
    }
  }
  EXPECT_GT(now.rows, 400);
  EXPECT_LT(now.regressed / now.rows, 0.01);  // the interval would allow 0.025
  EXPECT_LT(now.unequal / now.rows, 0.05);
  // Without drift, the interval covers only the spread of rounds, and is too narrow.
  EXPECT_GT(without_drift.unequal, 2 * now.unequal);
}

/// Returns runs of configs/ci/quickstart.json by one build, in the course of 40 minutes on two
/// cores that others compiled on. The runs lie apart by a factor of up to 2.3, and their rounds are
/// suspect.
std::vector<ResultSet> busy_runs() {
  std::vector<ResultSet> runs;
  for (int i = 1;; ++i) {
    const auto file = "tests/data/busy_cpu/run_" + std::to_string(i) + ".jsonl.gz";
    if (!std::filesystem::exists(file)) return runs;
    runs.push_back(read_results(file));
  }
}

TEST(Drift, RunsOfABusyMachineAreInconclusive) {
  const auto runs = busy_runs();
  ASSERT_GE(runs.size(), 6U);
  double rows = 0, inconclusive = 0;
  for (const ResultSet& old : runs) {
    for (const ResultSet& current : runs) {
      for (const GateRow& row : gate(std::span(&old, 1), current)) {
        if (!row.change) continue;
        EXPECT_NE(row.verdict, Verdict::regressed) << old.journal << ' ' << current.journal;
        ++rows;
        inconclusive += row.verdict == Verdict::inconclusive;
      }
    }
  }
  EXPECT_GT(inconclusive / rows, 0.4);  // in the others, the current run is faster
}

TEST(Drift, SeveralRunsTellHowBusyAMachineIs) {
  const auto runs = busy_runs();
  Count one, all;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<ResultSet> others = runs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    all.add(gate(others, runs[i]));
    for (const ResultSet& other : others) one.add(gate(std::span(&other, 1), runs[i]));
  }
  EXPECT_GT(one.unequal / one.rows, 0.5);   // 1 % of drift is far too little
  EXPECT_LT(all.unequal / all.rows, 0.15);  // the other runs show the drift
}

}  // namespace
}  // namespace rtfx
