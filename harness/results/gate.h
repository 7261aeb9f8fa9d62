// The gate: tells whether anything has become slower or wrong since a baseline.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/results/results.h"
#include "harness/results/verdict.h"

namespace rtfx {

/// Tolerances that replace those of the metrics, by key. A key whose metric no case has gives an
/// INVALID row.
using Tolerances = std::map<std::string, double>;

struct GateOptions {
  Tolerances tolerances = {};
  /// Kinds of allowable_differences() that are shown and do not make a case invalid.
  std::set<std::string> allowed = {};
  std::optional<double> drift = {};  // drift between runs; by default as runs_ratio() says
};

/// Judges every case of any set except A/A controls. A case has a row for each gated ratio and for
/// each allowed difference. For each baseline it has one row for the results and one for the WER.
/// Results for which `rtfx run` exits with CORRECTNESS are CORRECTNESS, whatever the baseline has.
/// A row `fp32` says that the WER is too far above that of the same case in fp32.
/// REGRESSED rows are corrected for the number of rows with a change (Bonferroni). So equal runs
/// show any such row with a probability of at most 5 %.
///
/// A case is invalid if only one set has it, if it failed, or if it was profiled. It is invalid,
/// too, if its build is not for measuring, or if its conditions differ (condition_differences()).
/// `baselines` holds one run, or several runs of the same program at different times, whose spread
/// tells how far runs differ.
std::vector<GateRow> gate(std::span<const ResultSet> baselines, const ResultSet& current,
                          const GateOptions& options = {});

}  // namespace rtfx
