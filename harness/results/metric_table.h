// The table of all metrics: how each is stored, merged, compared and exported. compare, gate, the
// exporters and the dashboard take their metrics from it (by metrics() of
// harness/results/metrics.h). Two tables name their columns themselves. The printed one is in
// harness/results/table.cpp. That of the HTML page is in plots/report.py, and its heads are in
// plots/report.html.j2.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/results/record_table.h"

namespace rtfx {

/// How the values of a run's shards become the value of the whole run.
enum class Merge {
  rate,                  // all audio, divided by the longest time of any shard
  slowest,               // the value of the slowest shard
  greatest,              // the greatest value of any shard
  per_second,            // the mean, in which each shard counts by its seconds of audio
  per_reference_second,  // the same by the seconds of its utterances with a reference
  energy,                // the joules of all shards for an hour of all audio
  absent                 // a merged record has no such value
};

/// A metric whose value `rtfx run` writes into the record of each round, under its key. There is no
/// metric of this kind without a rule for merging.
struct StoredInRun {
  StoredInRun(unsigned types, Merge merge, bool required = false)
      : types(types), merge(merge), required(required) {}

  unsigned types;  // JsonTypes of the value
  Merge merge;
  bool required;  // a record without it is invalid
};

/// A metric of streams only, which their records have under its key. `rtfx stream` writes it, or
/// reading the journal adds it.
struct StoredInStream {};

/// A metric that a function of harness/results/metrics.cpp computes from the record of a round.
struct Computed {};

struct MetricInfo {
  enum class Change { ratio, difference };

  const char* key;  // name of its series, which does not change between releases
  std::variant<StoredInRun, StoredInStream, Computed> source;
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
  /// If a case has the metric, it is a column of the tables that `rtfx export` writes in Markdown
  /// and LaTeX.
  bool in_tables = false;
};

/// Returns all metrics, in the order in which tables show them.
const std::vector<MetricInfo>& metric_table();

/// Returns how rounds of `rtfx run` store the metric. Null for every other key.
const StoredInRun* find_stored_in_run(std::string_view key);

}  // namespace rtfx
