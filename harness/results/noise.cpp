#include "harness/results/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/comparability.h"
#include "harness/results/metrics.h"

namespace rtfx {
namespace {

using nlohmann::json;

std::vector<Metric> judged(const std::vector<std::string>& keys) {
  std::vector<Metric> chosen;
  for (const std::string& key : keys) {
    chosen.push_back(find_metric(key, "--metric"));
    if (chosen.back().change != Metric::Change::ratio)
      throw UserError("--metric " + key, "is repeated by every round, or may be 0",
                      "name one that changes by ratios, such as rtfx.decode");
  }
  if (!chosen.empty()) return chosen;
  for (const Metric& metric : metrics()) {
    if (metric.tolerance && metric.change == Metric::Change::ratio) chosen.push_back(metric);
  }
  return chosen;
}

/// The logarithms of a metric in one run.
struct RunLogs {
  Spread logs;
  size_t rounds;
};

/// Returns an entry for each run in which the case has two rounds or more.
std::vector<RunLogs> by_run(std::span<const ResultSet> runs, const std::string& name,
                            const Metric& metric) {
  std::vector<RunLogs> found;
  for (const ResultSet& run : runs) {
    const CaseResult* result = run.find(name);
    std::vector<double> logs =
        result == nullptr ? std::vector<double>() : counted_values(metric, result->summary);
    if (logs.size() < 2) continue;
    for (double& value : logs) value = std::log(value);
    found.push_back({spread_of(logs), logs.size()});
  }
  return found;
}

/// Returns the drift between runs. The variance of their means includes the variance of a mean of
/// rounds, which minimum_detectable_change() adds by itself.
double drift_between(const std::vector<RunLogs>& runs) {
  std::vector<double> means;
  means.reserve(runs.size());
  double by_rounds = 0;
  for (const auto& [logs, rounds] : runs) {
    means.push_back(logs.mean);
    by_rounds += logs.sd * logs.sd / static_cast<double>(rounds * runs.size());
  }
  const double sd = spread_of(means).sd;
  const double between = std::sqrt(std::max(0.0, sd * sd - by_rounds));
  return runs.size() >= kRunsThatTellDrift ? between : std::max(kRunDrift, between);
}

/// Says on stderr which cases of `run` are not in `other`, and what follows from it.
void note_missing(const ResultSet& run, const ResultSet& other, const char* consequence) {
  for (const CaseResult& result : run.cases) {
    if (result.control_of().empty() && other.find(result.name()) == nullptr) {
      print_message("rtfx: notice: {}: is not in {}; {}\n", printable(result.name()),
                    printable(other.journal.string()), consequence);
    }
  }
}

/// Throws UserError for a journal that is given twice, and for a case that was measured under other
/// conditions than in the last run.
void require_one_program(std::span<const ResultSet> runs) {
  std::set<std::filesystem::path> journals;
  const ResultSet& last = runs.back();
  for (const ResultSet& run : runs) {
    const std::string file = run.journal.string();
    if (!is_new_journal(journals, run.journal))
      throw UserError(file, "is given twice", "name each run once, since equal runs show no drift");
    for (const CaseResult& result : run.cases) {
      const CaseResult* now = last.find(result.name());
      if (now == nullptr || result.summary.failure || now->summary.failure) continue;
      const auto differences = condition_differences(result, *now);
      if (differences.empty()) continue;
      throw UserError(file,
                      fmt::format("{}: {} in {}", std::string(result.name()),
                                  differences.front().text, last.journal.string()),
                      "give runs of one program on one machine");
    }
    note_missing(run, last, "left out");
    note_missing(last, run, "its drift is that of the other runs");
  }
}

}  // namespace

std::vector<NoiseRow> noise(std::span<const ResultSet> runs,
                            const std::vector<std::string>& metrics, std::optional<double> drift) {
  RTFX_CHECK(!runs.empty(), "no runs");
  for (const ResultSet& run : runs) run.require_cases();
  require_one_program(runs);
  std::vector<NoiseRow> rows;
  for (const CaseResult& result : runs.back().cases) {
    if (!result.control_of().empty()) continue;
    for (const Metric& metric : judged(metrics)) {
      const size_t rounds = counted_values(metric, result.summary).size();
      const std::vector<RunLogs> known = by_run(runs, result.name(), metric);
      if (rounds < 2) continue;
      double variance = 0;
      for (const auto& [logs, _] : known)
        variance += logs.sd * logs.sd / static_cast<double>(known.size());
      NoiseRow& row = rows.emplace_back(NoiseRow{.case_name = result.name(),
                                                 .metric = metric.key,
                                                 .rounds = rounds,
                                                 .sd = std::sqrt(variance),
                                                 .drift = drift.value_or(drift_between(known)),
                                                 .visible = 0,
                                                 .by_rounds = {}});
      row.visible = minimum_detectable_change(row.sd, static_cast<int64_t>(rounds), row.drift);
      for (const int64_t count : kRoundsOfNoise)
        row.by_rounds.push_back(minimum_detectable_change(row.sd, count, row.drift));
    }
  }
  if (rows.empty())
    throw UserError(runs.back().journal.string(), "has no case with two rounds of such a metric",
                    "measure more rounds (protocol.measured_rounds), or name a metric that has a "
                    "value in every round");
  return rows;
}

json noise_json(const std::vector<NoiseRow>& rows) {
  json list = json::array();
  for (const NoiseRow& row : rows) {
    json by_rounds = json::object();
    for (size_t i = 0; i < row.by_rounds.size(); ++i)
      by_rounds[std::to_string(kRoundsOfNoise[i])] = row.by_rounds[i];
    list.push_back({{"case", row.case_name},
                    {"metric", row.metric},
                    {"rounds", row.rounds},
                    {"sd", row.sd},
                    {"drift", row.drift},
                    {"visible", row.visible},
                    {"visible_by_rounds", by_rounds}});
  }
  return list;
}

void print_noise(const std::vector<NoiseRow>& rows) {
  std::string current;
  size_t width = 0;
  for (const NoiseRow& row : rows) width = std::max(width, row.metric.size());
  for (const NoiseRow& row : rows) {
    if (row.case_name != current) {
      fmt::print("\n{}\n  {:<{}} {:>7} {:>7} {:>7} {:>8}", printable(row.case_name), "", width,
                 "sd %", "drift %", "rounds", "visible");
      for (const int64_t count : kRoundsOfNoise) fmt::print(" {:>6}", fmt::format("of {}", count));
      fmt::print("\n");
      current = row.case_name;
    }
    fmt::print("  {:<{}} {:>7.2f} {:>7.2f} {:>7} {:>6.2f} %", row.metric, width, 100 * row.sd,
               100 * row.drift, row.rounds, 100 * row.visible);
    for (const double visible : row.by_rounds) fmt::print(" {:>6.2f}", 100 * visible);
    fmt::print("\n");
  }
  fmt::print(
      "\n{}\n",
      wrapped("visible: the smallest change between two such runs that four of five comparisons "
              "tell from none (95 % interval), with the rounds at hand and with others. sd: over "
              "rounds. drift: between runs of one program, which no number of rounds makes "
              "smaller. For a verdict REGRESSED the tolerance comes on top "
              "(docs/background/statistics.md).",
              text_columns()));
}

}  // namespace rtfx
