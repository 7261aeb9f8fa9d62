// Writes a run's results in the formats of other tools. All formats take their figures from the
// table of metrics.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/results/metrics.h"

namespace rtfx {

// Escapes text that others wrote for the formats of tables. The result is on one line, and has no
// control characters (base/printable.h).

/// Escapes text for a cell of a LaTeX table, its caption or a comment. No character of it can act
/// as a command, end the comment, or be read as the option of a line break ("\\ [2pt]").
std::string latex_text(std::string_view text);

/// Escapes text for a Markdown table and for running text, so that it is neither markup nor HTML.
std::string markdown_text(std::string_view text);

/// Escapes text for an XML element and for the value of an attribute.
std::string xml_text(std::string_view text);

/// Returns a field of a CSV file, quoted if necessary. A text that a spreadsheet would read as a
/// formula (it begins with =, +, - or @) gets an apostrophe in front.
std::string csv_text(std::string_view text);

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
///   latex          A table like that of markdown. Values that are equal in all rows stand in a
///                  comment.
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

/// Writes the line of `rtfx summary`, which the scripts in plots/ read, piece by piece:
///   {"provenances": [...], "cases": [...], "streams": [...], "mark_meanings": {"NOISY": "..."},
///    "metrics": metrics_json(), "tuned": tuned_sentences()}
/// A case has the members of summary_json(), its record "last", its "rounds", and "figures"
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
