// Writes a run's results in the formats of other tools. All formats take their figures from the
// table of metrics.
#pragma once

#include <string>
#include <vector>

#include "harness/results/metrics.h"

namespace rtfx {

/// The formats of `rtfx export`:
///   gbench         Google Benchmark's JSON, with one entry for each round. Its compare.py reads
///                  it, and so do Conbench and others.
///   bmf            Bencher Metric Format, with one object for each case, and intervals.
///   github-action  A list for github-action-benchmark's customBiggerIsBetter, or with
///                  `smaller_is_better` for customSmallerIsBetter. It has the metrics of that
///                  direction.
///   prometheus     Gauges in base units as text, which node_exporter's textfile collector reads.
///   csv            Every figure of every case.
///   markdown       A table of the metrics for people, or of the chosen ones. Values that are
///                  equal in all rows stand below the table.
///   latex          A table like that of markdown. Its notes hold the values that are equal in all
///                  rows, the meanings of marks and the conclusions.
///   open-asr-leaderboard
///                  A folder of files (open_asr_leaderboard.h).
const std::vector<std::string>& export_formats();

inline constexpr const char* kOpenAsrLeaderboard = "open-asr-leaderboard";

struct ExportOptions {
  bool smaller_is_better = false;
  std::vector<std::string> metrics = {};  // keys; none: all
};

/// Throws UserError for records that are no measurement: the build is not Release, or has
/// sanitizers.
void require_measurement(const ResultSet& results);

/// Returns the text of the file, for cases and streams. Failed cases are in gbench (with
/// error_message), prometheus, csv, markdown and latex only. Throws UserError as
/// require_measurement() does, for an unknown format or metric, and for a format that is no single
/// file. With github-action, it also throws for a chosen metric of the other direction.
std::string export_results(const ResultSet& results, const std::string& format,
                           const ExportOptions& options = {});

}  // namespace rtfx
