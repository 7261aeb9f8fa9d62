// Exports to JSON: gbench, bmf, github-action.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/report/export_writers.h"
#include "harness/results/stand_in.h"

namespace rtfx {

namespace {

using ordered = nlohmann::ordered_json;

std::string with(std::string key, char separator) {
  std::replace(key.begin(), key.end(), '.', separator);
  return key;
}

std::string dump(const ordered& document) { return document.dump(2) + "\n"; }

/// Returns the context of the measurement: the standard keys that are known, and then strings. Each
/// file of Google Benchmark has `caches`, and Bencher's adapter requires it.
ordered gbench_context(const record::Provenance& provenance, const std::string& marks,
                       const std::string& tuned) {
  const record::Build build = build_of(provenance);
  ordered context = {{"date", provenance.started.value_or("")}};
  if (provenance.host_name) context["host_name"] = *provenance.host_name;
  context.update(ordered{{"executable", "rtfx"},
                         {"num_cpus", provenance.cpu ? provenance.cpu->cores.value_or(0) : 0},
                         {"caches", ordered::array()},
                         {"library_build_type", "release"},
                         {"json_schema_version", 1},
                         {"rtfx_version", build.version.value_or("")},
                         {"rtfx_revision", build.revision.value_or("")},
                         {"rtfx_config_hash", provenance.config_hash.value_or("")},
                         {"rtfx_device", device_name(provenance, "")},
                         {"rtfx_marks", marks}});
  if (!tuned.empty()) context["rtfx_tuned"] = tuned;
  return context;
}

/// Returns an entry without a time of its own, for a failure or a count. compare.py requires times
/// of each entry, and leaves aggregates out of its mean.
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

/// Returns the milliseconds of a repetition: from samples to text, or the latency of a stream's
/// request.
std::optional<double> gbench_time(const record::Round& round) {
  if (const auto* run = std::get_if<record::Run>(&round)) return 1e3 * run->total_seconds;
  const record::Figures& metrics = record::metrics(round);
  const auto found = metrics.find("stream.total_ms");
  return found != metrics.end() && found->second ? std::optional<double>(*found->second)
                                                 : std::nullopt;
}

ordered gbench_round(const CaseResult& c, size_t index, const std::vector<Metric>& metrics) {
  const record::Round& round = c.rounds()[index];
  const auto* run = std::get_if<record::Run>(&round);
  const auto time = gbench_time(round);
  ordered entry = gbench_timeless(c.name(), "count");
  if (time) {
    entry = {{"name", c.name()},
             {"run_name", c.name()},
             {"run_type", "iteration"},
             {"repetitions", c.rounds().size()},
             {"repetition_index", index},
             {"threads", c.provenance().cpu ? c.provenance().cpu->threads.value_or(1) : 1},
             {"iterations", 1},
             {"real_time", *time},
             // Google Benchmark's compare.py requires "cpu_time" in every entry. For two zeros, it
             // shows no difference.
             {"cpu_time", run == nullptr ? 0.0 : 1e3 * run->cpu_seconds.value_or(0.0)},
             {"time_unit", "ms"}};
  }
  if (!c.summary.marks().empty())
    entry["label"] = fmt::format("{}", fmt::join(c.summary.marks(), " "));
  if (record::is_suspect(round))
    entry["suspect"] = fmt::format("{}", fmt::join(*record::suspect_reasons(round), " "));
  for (const Metric& metric : metrics) {
    const auto value = value_in(metric, round);
    if (!value) continue;
    const std::string key = metric.key;
    entry[key == "rtfx.total" ? "items_per_second" : with(key, '_')] = *value;
  }
  return entry;
}

/// Returns "gpu: NVIDIA H200\n...", for the tool tip of a point.
std::string origin(const CaseResult& c) {
  const record::Build build = build_of(c.provenance());
  std::string text = fmt::format(
      "device: {}\nrtfx {} ({})\nrounds: {}\ngrade: {}", device_name(c.provenance(), "unknown"),
      build.version.value_or("?"), build.revision.value_or("?"), c.rounds().size(),
      c.summary.grade.empty() ? "-" : c.summary.grade);
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
  const std::string tuned = fmt::format("{}", fmt::join(tuned_sentences(results), " "));
  ordered document = {{"context", gbench_context(results.provenance, marks, tuned)},
                      {"benchmarks", ordered::array()}};
  for (const CaseResult* c : results.all()) {
    if (c->summary.failure) {
      ordered entry = gbench_timeless(c->name(), "failure");
      entry["error_occurred"] = true;
      entry["error_message"] = *c->summary.failure;
      document["benchmarks"].push_back(std::move(entry));
    }
    for (size_t i = 0; i < c->rounds().size(); ++i)
      document["benchmarks"].push_back(gbench_round(*c, i, metrics));
  }
  return dump(document);
}

std::string export_bmf(const ResultSet& results, const std::vector<Metric>& metrics) {
  ordered document = ordered::object();
  const std::vector<TunedSearch> searches = tuned_searches(results);
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
    // BMF holds only numbers. So doubts about a case are metrics, whose names say what they mean.
    if (const auto share = c->summary.suspect_share())
      measures["suspect-round-share"] = {{"value", *share}};
    if (const auto share = c->summary.gaps()) measures["gap-share"] = {{"value", *share}};
    measures["noisy"] = {{"value", c->summary.noisy() ? 1 : 0}};
    if (!tuned_text(searches, *c).empty()) measures["tuned"] = {{"value", 1}};
    // BMF has no field for stand-ins, so the name tells them. Otherwise a series would join results
    // of a stand-in with those of the original.
    document[name_with_marks(c->name(), c->summary.stand_ins())] = std::move(measures);
  }
  return dump(document);
}

std::string export_github_action(const ResultSet& results, const std::vector<Metric>& metrics,
                                 bool smaller_is_better) {
  const int direction = smaller_is_better ? -1 : 1;
  ordered document = ordered::array();
  const std::vector<TunedSearch> searches = tuned_searches(results);
  for (const CaseResult* c : results.all()) {
    const std::string tuned = tuned_text(searches, *c);
    for (const Metric& metric : metrics) {
      const auto figure = figure_of(metric, *c);
      if (metric.direction != direction || !figure) continue;
      const bool share = *metric.unit == '\0';
      const double scale = share ? 100 : 1;
      ordered entry = {{"name", c->name() + " " + metric.key},
                       {"unit", share ? "%" : metric.unit},
                       {"value", scale * figure->interval.estimate}};
      if (figure->sd > 0) entry["range"] = fmt::format("± {:.3g}", scale * figure->sd);
      entry["extra"] = origin(*c) + (tuned.empty() ? "" : "\n" + tuned);
      document.push_back(std::move(entry));
    }
  }
  return dump(document);
}

}  // namespace rtfx
