// A run's results in the formats of other tools, all from the table of metrics.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/results/metrics.h"

namespace rtfx {

// Text that others wrote, made fit for the formats that tables are written in. Each is on one line,
// and without control characters (base/printable.h).

/// Escapes text for a cell of a LaTeX table, its caption or a comment. No character of it is a
/// command, ends the comment, or is read as the option of a line's end ("\\ [2pt]").
std::string latex_text(std::string_view text);

/// Escapes text for a Markdown table and for running text, so that it is neither markup nor HTML.
std::string markdown_text(std::string_view text);

/// Escapes text for an XML element and for the value of an attribute.
std::string xml_text(std::string_view text);

/// A field of a CSV file, quoted where it must be. What a spreadsheet would take for a formula
/// (=, +, -, @ at the beginning) begins with an apostrophe.
std::string csv_text(std::string_view text);

/// gbench: Google Benchmark's JSON, one entry per round; for its compare.py, Conbench and others.
/// bmf: Bencher Metric Format, one object per case, with intervals.
/// github-action: a list for github-action-benchmark's customBiggerIsBetter, or, with
///   `smaller_is_better`, for customSmallerIsBetter. It holds the metrics of that direction.
/// prometheus: text of gauges in base units, as node_exporter's textfile collector reads it.
/// csv: every figure of every case. markdown, latex: a table of the metrics that people read, or of
///   those that were chosen; what is the same in all rows stands below it (markdown) or in a
///   comment (latex).
/// open-asr-leaderboard: a folder of files (open_asr_leaderboard.h).
const std::vector<std::string>& export_formats();

inline constexpr const char* kOpenAsrLeaderboard = "open-asr-leaderboard";

struct ExportOptions {
  bool smaller_is_better = false;
  std::vector<std::string> metrics = {};  // keys; none: all
};

/// Throws UserError for records that are no measurement: of a build other than Release, or with
/// sanitizers.
void require_measurement(const ResultSet& results);

/// The text of the file, of cases and streams. Cases that failed stand in gbench (with
/// error_message), prometheus, csv, markdown and latex alone. Throws UserError as
/// require_measurement() does, for an unknown format or metric and for a format that is no single
/// file. With github-action it also throws for a chosen metric of the other direction.
std::string export_results(const ResultSet& results, const std::string& format,
                           const ExportOptions& options = {});

/// Writes the line of `rtfx summary`, which the scripts in plots/ read, in parts:
///   {"provenances": [...], "cases": [...], "streams": [...], "mark_meanings": {"NOISY": "..."},
///    "metrics": metrics_json(), "tuned": tuned_sentences()}
/// A case has the members of summary_json(), its record "last", its "rounds" and "figures"
/// (figures_json()).
void write_summary(const ResultSet& results, const std::function<void(std::string_view)>& write);

std::string export_gbench(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_bmf(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_github_action(const ResultSet& results, const std::vector<Metric>& metrics,
                                 bool smaller_is_better);
std::string export_prometheus(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_csv(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_markdown(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_latex(const ResultSet& results, const std::vector<Metric>& metrics);

}  // namespace rtfx
