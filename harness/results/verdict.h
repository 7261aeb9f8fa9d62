// Verdicts of `rtfx gate` and `rtfx verify`: their order, the judgement of a change, and the rows
// of their tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/results/statistics.h"

namespace rtfx {

/// The values are exit codes of `rtfx gate` and `rtfx verify`, in addition to ExitCode of
/// base/error.h. 0 and 13 mean the same in both.
enum class Verdict {
  pass = 0,        // nothing is worse beyond its tolerance
  regressed = 10,  // the interval of the change lies on the worse side of the tolerance
  /// The interval contains the tolerance, the noise is larger than it, or machine, load or clocks
  /// differ.
  inconclusive = 11,
  invalid = 12,      // the results cannot be compared
  correctness = 13,  // results differ, or there are more word errors than tolerated
};

/// "PASS", "REGRESSED", ...
const char* to_string(Verdict verdict);

/// Returns the graver of two verdicts: correctness > invalid > regressed > inconclusive > pass.
Verdict worse(Verdict a, Verdict b);

/// A figure or a fact of a case that was judged, or a fault of a whole journal.
struct GateRow {
  std::string case_name;
  std::string what;  // key of a metric, "results", "fp32", "case", "grade" or "caching"
  std::optional<double> baseline = {}, current = {};
  std::optional<Interval> change = {};  // of a ratio metric: current / baseline
  std::optional<double> tolerance = {}, floor = {};
  Verdict verdict = Verdict::pass;
  std::string reason = {};
  std::string rounds = {};  // rounds that count before and now, for a ratio metric
  bool is_fair = true;      // both were measured on the same machine, and undisturbed
  /// Journal of the baseline run that the row is about, if it is about one of several.
  std::string baseline_run = {};

  /// Returns the reason, followed by the baseline run if there is one.
  std::string full_reason() const;
};

/// Returns the worst verdict of the rows. A set without cases is one invalid row, so an empty list
/// never passes.
Verdict worst(const std::vector<GateRow>& rows);

struct Judgement {
  Verdict verdict;
  std::string reason;
};

/// Returns, for example, "0.25" or "130": two digits, or all digits before the point.
std::string number_text(double value);
/// Returns "130 %" for 1.3.
std::string percent_text(double share);

/// Judges a change. `gain` is new / old if more is better, and old / new with `less_is_better`.
/// `floor` is the largest change that noise alone makes. Tolerance and floor are shares of the old
/// value. So if less is better, the new value may be 1 + tolerance times as large.
///
/// A tolerance below the floor cannot be judged. Then only an improvement, and a loss beyond the
/// floor, can be told from noise. `corrected_high` is the upper end of the gain's interval,
/// corrected for the number of rows that are judged together. A loss is REGRESSED only if this end
/// shows it too.
Judgement judge(const Interval& gain, double tolerance, double floor,
                std::optional<double> corrected_high = {}, bool less_is_better = false);

}  // namespace rtfx
