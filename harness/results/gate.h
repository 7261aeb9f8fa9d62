// The gate: has anything become slower, or wrong, since a baseline? Results in, verdicts out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// The values are exit codes of `rtfx gate`.
enum class Verdict {
  pass = 0,           // nothing is worse beyond its tolerance; getting better never fails
  regressed = 10,     // the interval of the change lies on the worse side of the tolerance
  inconclusive = 11,  // the interval holds the tolerance, or the noise is larger than it
  invalid = 12,       // the results cannot be compared
  correctness = 13,   // other results, or more word errors than tolerated
};

/// "PASS", "REGRESSED", ...
const char* to_string(Verdict verdict);

/// The graver one: correctness > invalid > regressed > inconclusive > pass.
Verdict worse(Verdict a, Verdict b);

struct GateRow {
  std::string case_name;
  std::string what;  // key of a metric, "results" or "case"
  std::optional<double> baseline, current;
  std::optional<Interval> change;  // of a ratio metric: current / baseline
  std::optional<double> tolerance, floor;
  Verdict verdict = Verdict::pass;
  std::string reason;
};

struct Judgement {
  Verdict verdict;
  std::string reason;
};

/// `gain`: new / old of something of which more is better. `floor`: the largest change that
/// noise alone makes. A tolerance below the floor is refused: then only an improvement, and a loss
/// beyond the floor, can be told from noise.
Judgement judge(const Interval& gain, double tolerance, double floor);

/// Tolerances that replace those of the metrics, by key.
using Tolerances = std::map<std::string, double>;

/// Every case of either set, A/A controls apart, with one row per gated metric and one for the
/// results. A case that only one set has is invalid, and so is one that failed, was profiled, comes
/// from a build that is not for measuring, or ran on another device, model or data.
std::vector<GateRow> gate(const ResultSet& baseline, const ResultSet& current,
                          const Tolerances& tolerances = {});

/// PASS for no rows at all never happens: a set without cases is one invalid row.
Verdict worst(const std::vector<GateRow>& rows);

}  // namespace rtfx
