// The metrics of a case, declared once. compare, gate, the exporters and the dashboard read only
// this table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

struct Metric {
  enum class Change { ratio, difference };

  const char* key;  // name of its series, which does not change between releases
  /// Returns the value in a round of `rtfx run`. If null, the value is the record's own metric of
  /// this key, for runs and streams.
  std::optional<double> (*value)(const record::Run& round);
  /// "x": seconds of audio per second of work; "": a share of 1; "ms", "MiB", "J"; else the name of
  /// what is counted.
  const char* unit;
  const char* meaning;  // whole sentences, each with its full stop
  int direction;        // 1: bigger is better, -1: smaller is better, 0: neither
  Change change;        // how two values are compared; a ratio needs positive values
  /// The gate tolerates a change for the worse by this much: a share of the old value for a ratio,
  /// a difference for `wer`. Without it, the metric is shown and not gated. The gate judges no
  /// other differences.
  std::optional<double> tolerance;
  bool in_tables = false;  // a column of the tables that people read, if a case has it
};

const std::vector<Metric>& metrics();

/// Throws UserError at `where` for an unknown key.
const Metric& find_metric(std::string_view key, std::string_view where);

/// Returns the values in all rounds that have one and may show it (is_shown()).
std::vector<double> metric_values(const Metric& metric, const record::Rounds& rounds);

/// Returns the values in the rounds by which a case is compared (CaseSummary::counted_rounds()). If
/// only other rounds have a value, as with a first pass, it returns the values of all rounds.
std::vector<double> counted_values(const Metric& metric, const CaseSummary& summary);

/// Returns the ratio `to` / `from` of the counted_values() of two cases of one run, or none if
/// either has no value. Two rounds form a pair if they have one number and one invocation. It is
/// paired_ratio() if at least two pairs count. Otherwise it is runs_ratio(), without drift if all
/// rounds are of one invocation. A decoder that `--resume` added has its rounds in another one.
std::optional<Interval> ratio_within_run(const Metric& metric, const CaseSummary& from,
                                         const CaseSummary& to);

/// Returns the largest change that noise alone makes in a ratio metric of a group (noise_floor() in
/// harness/results/statistics.h), from the group's A/A control. None without a control, if
/// either of the two has a single value, or if they were measured in different modes.
std::optional<double> measured_noise_floor(const ResultSet& results, const std::string& group,
                                           const Metric& metric);

/// Returns the value in a round that has one and may show it.
std::optional<double> value_in(const Metric& metric, const record::Round& round);

/// Returns the mean over all rounds, or for a grade the worst one. None for a failure, and if no
/// round has a value. The interval is the t-interval over rounds, which other rounds with the same
/// utterances would fall into. For a single round its ends are infinite. For a difference whose
/// rounds are all equal, they are equal.
std::optional<Interval> metric_interval(const Metric& metric, const CaseResult& result);

/// The figure that tables and exports show of a metric.
struct Figure {
  Interval interval;  // metric_interval()
  double sd = 0;      // standard deviation over rounds
  size_t rounds = 0;  // number of rounds that have a value
};
std::optional<Figure> figure_of(const Metric& metric, const CaseResult& result);

/// Returns {"estimate", "low", "high"}; an infinite end is null.
nlohmann::json to_json(const Interval& interval);

/// Returns {key: {"estimate", "low", "high" (metric_interval()), "sd", "rounds"}} for the metrics
/// that the case has.
nlohmann::json figures_json(const CaseResult& result);

/// Returns [{"name", "unit", "direction", "tolerance" (null: never gated by itself), "meaning"}]
/// for all metrics.
nlohmann::json metrics_json();

}  // namespace rtfx
