// Exports to tables: csv, markdown, latex.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/printable.h"
#include "harness/report/escape.h"
#include "harness/report/export_writers.h"
#include "harness/results/conclusion.h"
#include "harness/results/stand_in.h"

namespace rtfx {

namespace {

using Row = std::vector<std::string>;

struct Table {
  Row head;
  std::vector<bool> is_number;  // indexed by column
  std::vector<Row> rows;
};

std::string batch_text(const CaseResult& c) {
  const record::Batch& batch = c.about().batch;
  return fmt::format("{:g}{}", static_cast<double>(batch.size), batch.by == "seconds" ? " s" : "");
}

std::string marks_text(const CaseResult& c) {
  return fmt::format("{}", fmt::join(c.summary.marks(), " "));
}

/// Returns the reasons of suspect rounds and how many have them, such as "cpu_wait 3 sw_power_cap
/// 1".
std::string reasons_text(const CaseResult& c) {
  std::string text;
  for (const auto& [reason, rounds] : c.summary.suspect_reasons())
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", reason, rounds);
  return text;
}

/// Returns, for example, "exact" or "text ~ NOISY".
std::string judgement(const CaseResult& c) {
  const std::string grade = c.summary.grade_text(), marks = marks_text(c);
  return grade + (grade.empty() || marks.empty() ? "" : " ") + marks;
}

/// Returns the columns that identify the case of a row.
Row identity(const CaseResult& c) {
  const record::Case& about = c.about();
  return {about.model.id, about.dataset.id, c.decoder(),
          batch_text(c),  about.dtype,      device_name(c.provenance(), about.device)};
}

Table identity_table() {
  return {{"model", "dataset", "decoder", "batch", "dtype", "device"},
          {false, false, false, true, false, false},
          {}};
}

std::string joined(const Row& row, const std::string& separator) {
  return fmt::format("{}", fmt::join(row, separator));
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

/// Returns the rounded figure. It has a deviation if there are several rounds, and not for a count
/// that all of them repeat.
std::string rounded(const Metric& metric, const std::optional<Figure>& figure) {
  if (!figure) return "";
  const double mean = figure->interval.estimate;
  if (*metric.unit == '\0') return fmt::format("{:.2f}", 100 * mean);
  const bool count = metric.change == Metric::Change::difference && mean == std::round(mean);
  const int digits = mean < 100 && !count ? 1 : 0;
  if (figure->rounds == 1 || (count && figure->sd == 0))
    return fmt::format("{:.{}f}", mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, digits, figure->sd, digits);
}

/// Returns the metrics of the table for people, or the chosen metrics. They are those that any case
/// has or that the gate judges.
std::vector<Metric> columns_of(const ResultSet& results, const std::vector<Metric>& metrics) {
  std::vector<Metric> columns;
  for (const Metric& metric : metrics) {
    const bool known = std::ranges::any_of(results.all(), [&](const CaseResult* c) {
      return !metric_values(metric, c->rounds()).empty();
    });
    const bool wanted = metric.tolerance && !results.cases.empty();
    if (metric.in_tables && (known || wanted)) columns.push_back(metric);
  }
  return columns;
}

/// Returns the table for people, with rounded figures.
Table readable(const ResultSet& results, const std::vector<Metric>& columns) {
  Table table = identity_table();
  for (const Metric& metric : columns) {
    table.head.push_back(*metric.unit == '\0' ? fmt::format("{} %", metric.key) : metric.key);
    table.is_number.push_back(true);
  }
  table.head.emplace_back("grade");
  table.is_number.push_back(false);
  for (const CaseResult* c : results.all()) {
    Row row = identity(*c);
    for (const Metric& metric : columns) row.push_back(rounded(metric, figure_of(metric, *c)));
    row.push_back(judgement(*c));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Removes identity columns that are equal in every row, and says what they hold. The decoder
/// stays.
std::string take_constants(Table& table) {
  Row constants;
  for (size_t column = identity_table().head.size(); column-- > 0;) {
    if (table.head[column] == "decoder") continue;
    const std::string value = table.rows.front()[column];
    bool same = true;
    for (const Row& row : table.rows) same = same && row[column] == value;
    if (!same) continue;
    constants.insert(constants.begin(), table.head[column] + " " + value);
    const auto at = static_cast<std::ptrdiff_t>(column);
    table.head.erase(table.head.begin() + at);
    table.is_number.erase(table.is_number.begin() + at);
    for (Row& row : table.rows) row.erase(row.begin() + at);
  }
  return joined(constants, ", ");
}

std::string caption(const ResultSet& results, const std::vector<Metric>& columns,
                    const std::string& constants) {
  const record::Build build = build_of(results.provenance);
  std::string text = "RTFx: seconds of audio per second of work, mean ± sd over rounds.";
  if (!constants.empty()) text += " In all rows: " + constants + ".";
  std::set<std::string> models;
  for (const CaseResult* c : results.all()) {
    const record::Model& model = c->about().model;
    if (const std::string what = stand_in_model(model); !what.empty())
      models.insert(fmt::format("{} is {}", model.id, what));
  }
  if (!models.empty()) text += fmt::format(" Stand-in models: {}.", fmt::join(models, "; "));
  for (const Metric& metric : columns) {
    if (!metric.tolerance)
      text += fmt::format(" {}{}: {}", metric.key,
                          *metric.unit == '\0' ? "" : fmt::format(" ({})", metric.unit),
                          metric.meaning);
  }
  for (const auto& [mark, meaning] : meanings_of(results))
    text += " " + mark + ": " + meaning + ".";
  std::set<std::string> stand_ins;
  for (const CaseResult* c : results.all()) {
    if (c->summary.stand_in_data.empty()) continue;
    stand_ins.insert(fmt::format("{} is {}", c->about().dataset.id, c->summary.stand_in_data));
  }
  if (!stand_ins.empty()) text += fmt::format(" Stand-in data: {}.", fmt::join(stand_ins, "; "));
  for (const std::string& sentence : tuned_sentences(results)) text += " " + sentence;
  return text +
         fmt::format(" rtfx {} ({}).", build.version.value_or("?"), build.revision.value_or("?"));
}

template <class Escape>
Row escaped(const Row& row, const Escape& escape) {
  Row out;
  for (const std::string& text : row) out.push_back(escape(text));
  return out;
}

}  // namespace

std::string export_csv(const ResultSet& results, const std::vector<Metric>& metrics) {
  Row head = identity_table().head;
  head.insert(head.begin(), "case");
  for (const char* name : {"rounds", "grade", "marks", "suspect.share", "suspect.reasons",
                           "gaps.share", "tuned", "failure"})
    head.emplace_back(name);
  for (const Metric& metric : metrics) {
    for (const char* part : {"", ".sd", ".low", ".high"})
      head.push_back(metric.key + std::string(part));
  }
  std::string text = joined(head, ",") + "\n";
  const std::vector<TunedSearch> searches = tuned_searches(results);
  for (const CaseResult* c : results.all()) {
    Row row = identity(*c);
    row.insert(row.begin(), c->name());
    row.push_back(std::to_string(c->rounds().size()));
    row.push_back(c->summary.grade_text());
    row.push_back(marks_text(*c));
    const auto suspect = c->summary.suspect_share(), gaps = c->summary.gaps();
    row.push_back(suspect ? number(*suspect) : "");
    row.push_back(reasons_text(*c));
    row.push_back(gaps ? number(*gaps) : "");
    row.push_back(tuned_text(searches, *c));
    row.push_back(c->summary.failure.value_or(""));
    row = escaped(row, csv_text);
    for (const Metric& metric : metrics) {
      const auto figure = figure_of(metric, *c);
      row.push_back(figure ? number(figure->interval.estimate) : "");
      row.push_back(figure ? number(figure->sd) : "");
      row.push_back(figure ? number(figure->interval.low) : "");
      row.push_back(figure ? number(figure->interval.high) : "");
    }
    text += joined(row, ",") + "\n";
  }
  return text;
}

std::string export_markdown(const ResultSet& results, const std::vector<Metric>& metrics) {
  const std::vector<Metric> columns = columns_of(results, metrics);
  Table table = readable(results, columns);
  const std::string constants = take_constants(table);
  const Conclusion conclusion = conclude(all_of(results));
  std::string text;
  for (const std::string& sentence : conclusion.wrong)
    text += "**" + markdown_text(sentence) + "**\n\n";
  text += "| " + joined(escaped(table.head, markdown_text), " | ") + " |\n|";
  for (const bool right : table.is_number) text += right ? "--:|" : "---|";
  text += "\n";
  for (const Row& row : table.rows)
    text += "| " + joined(escaped(row, markdown_text), " | ") + " |\n";
  text += "\n" + markdown_text(caption(results, columns, constants)) + "\n";
  for (const std::string& sentence : conclusion.won) text += "\n" + markdown_text(sentence) + "\n";
  return text;
}

std::string export_latex(const ResultSet& results, const std::vector<Metric>& metrics) {
  const std::vector<Metric> columns = columns_of(results, metrics);
  Table table = readable(results, columns);
  const std::string constants = take_constants(table);
  std::string alignment;
  for (const bool right : table.is_number) alignment += right ? 'r' : 'l';
  std::string text = "% Needs the packages booktabs and threeparttable.\n\\begin{threeparttable}\n";
  text += "\\begin{tabular}{" + alignment + "}\n\\toprule\n";
  text += joined(escaped(table.head, latex_text), " & ") + " \\\\\n\\midrule\n";
  for (const Row& row : table.rows) text += joined(escaped(row, latex_text), " & ") + " \\\\\n";
  text += "\\bottomrule\n\\end{tabular}\n\\begin{tablenotes}[flushleft]\\footnotesize\n";
  const Conclusion conclusion = conclude(all_of(results));
  for (const std::string& sentence : conclusion.wrong)
    text += "\\item \\textbf{" + latex_text(sentence) + "}\n";
  text += "\\item " + latex_text(caption(results, columns, constants)) + "\n";
  for (const std::string& sentence : conclusion.won)
    text += "\\item " + latex_text(sentence) + "\n";
  return text + "\\end{tablenotes}\n\\end{threeparttable}\n";
}

}  // namespace rtfx
