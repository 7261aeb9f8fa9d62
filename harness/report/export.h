// A run's results in the formats of other tools, all from the table of metrics.
#pragma once

#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// gbench: Google Benchmark's JSON, one entry per round; for its compare.py, Conbench and others.
/// bmf: Bencher Metric Format, one object per case, with intervals.
/// github-action: a list for github-action-benchmark's customBiggerIsBetter, or, with
///   `smaller_is_better`, for customSmallerIsBetter; the metrics of tables only.
/// csv: every figure of every case. markdown, latex: a table; what is the same in all rows stands
///   below it (markdown) or in a comment (latex).
/// open-asr-leaderboard: a folder of files (open_asr_leaderboard.h).
const std::vector<std::string>& export_formats();

inline constexpr const char* kOpenAsrLeaderboard = "open-asr-leaderboard";

/// Throws UserError for records that are no measurement: of a build other than Release, or with
/// sanitizers.
void require_measurement(const ResultSet& results);

/// The text of the file. Cases that failed stand in gbench (with error_message), csv, markdown and
/// latex alone. Throws UserError as require_measurement() does, for an unknown format and for one
/// that is no single file.
std::string export_results(const ResultSet& results, const std::string& format,
                           bool smaller_is_better = false);

std::string export_gbench(const ResultSet& results);
std::string export_bmf(const ResultSet& results);
std::string export_github_action(const ResultSet& results, bool smaller_is_better);
std::string export_csv(const ResultSet& results);
std::string export_markdown(const ResultSet& results);
std::string export_latex(const ResultSet& results);

}  // namespace rtfx
