// The metrics of a case, declared once: compare, gate, the exporters and the dashboard read only
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

  const char* key;  // the name of its series, which stays from release to release
  /// Its value in a round of `rtfx run`. If null, the value is the figure of this key among the
  /// record's metrics, of runs and of streams.
  std::optional<double> (*value)(const record::Run& round);
  const char* unit;     // "x": seconds of audio per second of work; "": a share of 1; "ms", "MiB",
                        // "J"; else what is counted
  const char* meaning;  // whole sentences, each with its full stop
  int direction;        // 1: bigger is better, -1: smaller is better, 0: neither
  Change change;        // how two values are compared; a ratio needs positive ones
  /// The gate lets it get worse by this: a share of the old value for a ratio, a difference for
  /// `wer`. Without it, the metric is shown and not gated. The gate judges no other differences.
  std::optional<double> tolerance;
  bool in_tables = false;  // a column of tables that people read, where a case has it
};

const std::vector<Metric>& metrics();

/// Throws UserError at `where` for an unknown key.
const Metric& find_metric(std::string_view key, std::string_view where);

/// Its value in each of the rounds that have one and may show it (is_shown()).
std::vector<double> metric_values(const Metric& metric, const record::Rounds& rounds);

/// Its values in the rounds by which a case is compared (CaseSummary::counted_rounds()), or in all
/// rounds where only the others have one, as that of a first pass may be.
std::vector<double> counted_values(const Metric& metric, const CaseSummary& summary);

/// The ratio `to` / `from` of the counted_values() of two cases of one run; none where either has
/// none. It is paired_ratio() over the rounds that count for both if there are at least two, else
/// unpaired_ratio(). A round of both has one number in one invocation, which measured both.
std::optional<Interval> ratio_within_run(const Metric& metric, const CaseSummary& from,
                                         const CaseSummary& to);

/// The largest change that noise alone makes in a ratio metric of a group (noise_floor() in
/// harness/results/statistics.h), from the group's A/A control. None without a control, and where
/// either of the two has a single value, which says nothing of noise.
std::optional<double> measured_noise_floor(const ResultSet& results, const std::string& group,
                                           const Metric& metric);

/// Its value in a round that has one and may show it.
std::optional<double> value_in(const Metric& metric, const record::Round& round);

/// The mean over all rounds, of a grade the worst; none for a failure and where no round has a
/// value. The interval is the t-interval over rounds. It says what other rounds with the same
/// utterances would give. The ends are equal for a difference whose rounds are all equal, and
/// infinite for other metrics of a single round.
std::optional<Interval> metric_interval(const Metric& metric, const CaseResult& result);

/// The figure that tables and exports show of a metric.
struct Figure {
  Interval interval;  // metric_interval()
  double sd = 0;      // over rounds
  size_t rounds = 0;  // that have a value
};
std::optional<Figure> figure_of(const Metric& metric, const CaseResult& result);

/// {"estimate", "low", "high"}; an infinite end is null.
nlohmann::json to_json(const Interval& interval);

/// {key: {"estimate", "low", "high" (metric_interval()), "sd", "rounds"}} of those that it has.
nlohmann::json figures_json(const CaseResult& result);

/// [{"name", "unit", "direction", "tolerance" (null: never gated by itself), "meaning"}] of all.
nlohmann::json metrics_json();

}  // namespace rtfx
