// `rtfx noise`: how small a change a machine can show, case by case.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// Numbers of rounds that the table speaks of besides those at hand.
inline constexpr int64_t kRoundsOfNoise[] = {5, 10, 20, 40};

struct NoiseRow {
  std::string case_name, metric;
  size_t rounds;                  // at hand, of the last run
  double sd;                      // of the logarithms over rounds, pooled over the runs
  double drift;                   // between runs, as it is reckoned with
  double visible;                 // with the rounds at hand: visible_change()
  std::vector<double> by_rounds;  // with each of kRoundsOfNoise
};

/// The noise of each case and metric in the last of `runs` that has two rounds or more, without A/A
/// controls. `metrics` holds keys of metrics that change by ratios; if it is empty, the gate's are
/// used.
///
/// Several runs of one program show how far runs differ. kRunsThatTellDrift or more replace
/// kRunDrift by their own spread; fewer do so where it is larger, which runs_ratio() does too.
/// `drift` replaces either. Throws UserError for runs without a case, and where no case has two
/// rounds.
std::vector<NoiseRow> noise(std::span<const ResultSet> runs,
                            const std::vector<std::string>& metrics, std::optional<double> drift);

nlohmann::json noise_json(const std::vector<NoiseRow>& rows);
void print_noise(const std::vector<NoiseRow>& rows);

}  // namespace rtfx
