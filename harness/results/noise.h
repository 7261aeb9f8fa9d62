// `rtfx noise`: tells how small a change a machine can show, case by case.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// The numbers of rounds for which the table tells the visible change, besides the rounds of the
/// run.
inline constexpr int64_t kRoundsOfNoise[] = {5, 10, 20, 40};

struct NoiseRow {
  std::string case_name, metric;
  size_t rounds;   // rounds of the last run
  double sd;       // standard deviation of the logarithms over rounds, pooled over the runs
  double drift;    // drift between runs that minimum_detectable_change() takes
  double visible;  // minimum_detectable_change() with the rounds of the last run
  std::vector<double> by_rounds;  // minimum_detectable_change() with each of kRoundsOfNoise
};

/// Returns the noise of each case and metric in the last of `runs` that has two rounds or more. A/A
/// controls are left out. `metrics` holds keys of metrics that change by ratios; if it is empty,
/// the metrics of the gate are taken.
///
/// Several runs of one program show how far runs differ. With kRunsThatTellDrift runs or more,
/// their own spread replaces kRunDrift, less the part that the noise of their rounds explains. With
/// fewer runs it does so only if it is larger. `drift` replaces either. Notices on stderr name the
/// cases that only some runs have.
///
/// Throws UserError for runs without a case, for a journal that is given twice, and if no case has
/// two rounds. Throws it also if condition_differences() finds one between a run and the last one.
std::vector<NoiseRow> noise(std::span<const ResultSet> runs,
                            const std::vector<std::string>& metrics, std::optional<double> drift);

/// Returns the rows as the JSON of `rtfx noise --json`.
nlohmann::json noise_json(const std::vector<NoiseRow>& rows);
/// Prints the rows as a table to standard output.
void print_noise(const std::vector<NoiseRow>& rows);

}  // namespace rtfx
