// Exporters to JSON: gbench, bmf, github-action.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/report/export.h"
#include "harness/results/stand_in.h"

namespace rtfx {
namespace {

using ordered = nlohmann::ordered_json;
using nlohmann::json;

std::string with(std::string key, char separator) {
  std::replace(key.begin(), key.end(), '.', separator);
  return key;
}

std::string dump(const ordered& document) { return document.dump(2) + "\n"; }

/// Who measured: the standard keys that are known, then strings. `caches` is in each file of Google
/// Benchmark and wanted by Bencher's adapter of it.
ordered gbench_context(const json& provenance, const std::string& marks) {
  const json build = provenance.value("rtfx", json::object());
  ordered context = {{"date", provenance.value("started", "")}};
  if (provenance.contains("host_name")) context["host_name"] = provenance["host_name"];
  context.update(ordered{{"executable", "rtfx"},
                         {"num_cpus", provenance.value("/cpu/cores"_json_pointer, 0)},
                         {"caches", ordered::array()},
                         {"library_build_type", "release"},
                         {"json_schema_version", 1},
                         {"rtfx_version", build.value("version", "")},
                         {"rtfx_revision", build.value("revision", "")},
                         {"rtfx_config_hash", provenance.value("config_hash", "")},
                         {"rtfx_device", provenance.value("/device/name"_json_pointer, "")},
                         {"rtfx_marks", marks}});
  return context;
}

/// An entry that took no time of its own, a failure or a count: compare.py wants times of each and
/// leaves aggregates out of the mean over all.
ordered gbench_timeless(const std::string& name, const char* aggregate) {
  return {{"name", name},
          {"run_name", name},
          {"run_type", "aggregate"},
          {"aggregate_name", aggregate},
          {"aggregate_unit", "time"},
          {"threads", 1},
          {"iterations", 0},
          {"real_time", 0.0},
          {"cpu_time", 0.0},
          {"time_unit", "ms"}};
}

/// The milliseconds of a repetition: from samples to text, or the latency of a stream's request.
json gbench_time(const json& round) {
  if (round.contains("total_seconds")) return 1e3 * round["total_seconds"].get<double>();
  return round.at("metrics").value("stream.total_ms", json());
}

ordered gbench_round(const CaseResult& c, size_t index, const std::vector<Metric>& metrics) {
  const json& round = c.rounds[index];
  const json time = gbench_time(round);
  ordered entry = gbench_timeless(c.name(), "count");
  if (time.is_number()) {
    entry = {{"name", c.name()},
             {"run_name", c.name()},
             {"run_type", "iteration"},
             {"repetitions", c.rounds.size()},
             {"repetition_index", index},
             {"threads", c.provenance.value("/cpu/threads"_json_pointer, 1)},
             {"iterations", 1},
             {"real_time", time},
             // compare.py wants it of every entry, and takes the difference of two zeros for none.
             {"cpu_time", 1e3 * round.value("cpu_seconds", 0.0)},
             {"time_unit", "ms"}};
  }
  if (!c.summary.marks().empty())
    entry["label"] = fmt::format("{}", fmt::join(c.summary.marks(), " "));
  if (const json reasons = round.value("suspect", json::array()); !reasons.empty())
    entry["suspect"] = fmt::format("{}", fmt::join(reasons.get<std::vector<std::string>>(), " "));
  for (const Metric& metric : metrics) {
    const auto values = metric_values(metric, {round});
    if (values.empty()) continue;
    const std::string key = metric.key;
    entry[key == "rtfx.total" ? "items_per_second" : with(key, '_')] = values.front();
  }
  return entry;
}

/// "gpu: NVIDIA H200\n..." for the tool tip of a point.
std::string origin(const CaseResult& c) {
  const json build = c.provenance.value("rtfx", json::object());
  std::string text = fmt::format("device: {}\nrtfx {} ({})\nrounds: {}\ngrade: {}",
                                 c.provenance.value("/device/name"_json_pointer, "unknown"),
                                 build.value("version", "?"), build.value("revision", "?"),
                                 c.rounds.size(), c.summary.grade.empty() ? "-" : c.summary.grade);
  for (const std::string& mark : c.summary.marks()) text += "\n" + mark;
  for (const auto& [mark, meaning] : meanings_of_marks({c.summary}))
    text += "\n" + mark + ": " + meaning;
  return text;
}

}  // namespace

std::string export_gbench(const ResultSet& results, const std::vector<Metric>& metrics) {
  std::string marks;
  for (const auto& [mark, meaning] : meanings_of(results))
    marks += (marks.empty() ? "" : "; ") + mark + ": " + meaning;
  ordered document = {{"context", gbench_context(results.provenance, marks)},
                      {"benchmarks", ordered::array()}};
  for (const CaseResult* c : results.all()) {
    if (c->summary.failure) {
      ordered entry = gbench_timeless(c->name(), "failure");
      entry["error_occurred"] = true;
      entry["error_message"] = *c->summary.failure;
      document["benchmarks"].push_back(std::move(entry));
    }
    for (size_t i = 0; i < c->rounds.size(); ++i)
      document["benchmarks"].push_back(gbench_round(*c, i, metrics));
  }
  return dump(document);
}

std::string export_bmf(const ResultSet& results, const std::vector<Metric>& metrics) {
  ordered document = ordered::object();
  for (const CaseResult* c : results.all()) {
    ordered measures = ordered::object();
    for (const Metric& metric : metrics) {
      const auto value = metric_interval(metric, *c);
      if (!value) continue;
      ordered entry = {{"value", value->estimate}};
      if (std::isfinite(value->low) && std::isfinite(value->high) && value->low < value->high) {
        entry["lower_value"] = value->low;
        entry["upper_value"] = value->high;
      }
      measures[with(metric.key, '-')] = std::move(entry);
    }
    if (measures.empty()) continue;
    // Their names say it: the format holds numbers alone.
    if (const auto share = c->summary.suspect_share())
      measures["suspect-round-share"] = {{"value", *share}};
    if (const auto share = c->summary.gaps()) measures["gap-share"] = {{"value", *share}};
    measures["noisy"] = {{"value", c->summary.noisy() ? 1 : 0}};
    // The format has a place for the name alone, and a series must not join one with the other.
    document[name_with_marks(c->name(), c->summary.stand_ins())] = std::move(measures);
  }
  return dump(document);
}

std::string export_github_action(const ResultSet& results, const std::vector<Metric>& metrics,
                                 bool smaller_is_better) {
  const int direction = smaller_is_better ? -1 : 1;
  ordered document = ordered::array();
  for (const CaseResult* c : results.all()) {
    for (const Metric& metric : metrics) {
      const auto figure = figure_of(metric, *c);
      if (metric.direction != direction || !figure) continue;
      const bool share = *metric.unit == '\0';
      const double scale = share ? 100 : 1;
      ordered entry = {{"name", c->name() + " " + metric.key},
                       {"unit", share ? "%" : metric.unit},
                       {"value", scale * figure->interval.estimate}};
      if (figure->sd > 0) entry["range"] = fmt::format("± {:.3g}", scale * figure->sd);
      entry["extra"] = origin(*c);
      document.push_back(std::move(entry));
    }
  }
  return dump(document);
}

}  // namespace rtfx
