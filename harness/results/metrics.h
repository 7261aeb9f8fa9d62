// The values of metrics (harness/results/metric_table.h) in the rounds of a case.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/results/metric_table.h"
#include "harness/results/results.h"

namespace rtfx {

/// A metric, with the function that computes it.
struct Metric : MetricInfo {
  /// Returns the value in a round of `rtfx run`. If null, the value is the record's own metric of
  /// this key, for runs and streams.
  std::optional<double> (*value)(const record::Run& round);
};

/// Returns the metrics of metric_table(), in its order.
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
