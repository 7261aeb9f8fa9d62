#include "harness/report/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "harness/report/export_writers.h"

namespace rtfx {

const std::vector<std::string>& export_formats() {
  static const std::vector<std::string> formats = {
      "gbench", "bmf",      "github-action", "prometheus",
      "csv",    "markdown", "latex",         kOpenAsrLeaderboard};
  return formats;
}

record::Build build_of(const record::Provenance& provenance) {
  return provenance.rtfx.value_or(record::Build());
}

std::string tuned_text(const std::vector<TunedSearch>& searches, const CaseResult& c) {
  for (const TunedSearch& search : searches)
    if (search.chosen && search.is_for(c)) return search.sentence;
  return "";
}

std::string device_name(const record::Provenance& provenance, const std::string& unknown) {
  return provenance.device ? provenance.device->name.value_or(unknown) : unknown;
}

void require_measurement(const ResultSet& results) {
  for (const CaseResult* c : results.all()) {
    for (const record::Provenance* provenance : c->provenances()) {
      const record::Build build = build_of(*provenance);
      if (build.build_type.value_or("Release") == "Release" && build.sanitizer != true) continue;
      throw UserError(results.journal.string(), "comes from a build that is not for measuring",
                      "use the preset 'release'");
    }
  }
}

namespace {

/// Throws UserError for a chosen metric that the list would leave out.
void require_direction(const std::vector<Metric>& chosen, bool smaller_is_better) {
  for (const Metric& metric : chosen) {
    if (metric.direction == (smaller_is_better ? -1 : 1)) continue;
    const std::string where = fmt::format("--metric {}", metric.key);
    if (metric.direction == 0)
      throw UserError(where, "is neither better nor worse where it is larger",
                      "choose another format: --to github-action lists what can get worse");
    throw UserError(
        where, fmt::format("is better where it is {}", smaller_is_better ? "larger" : "smaller"),
        smaller_is_better ? "list it without --smaller-is-better, in another file"
                          : "list it with --smaller-is-better, in another file");
  }
}

}  // namespace

std::string export_results(const ResultSet& results, const std::string& format,
                           const ExportOptions& options) {
  require_measurement(results);
  std::vector<Metric> chosen;
  for (const std::string& key : options.metrics) {
    // Formats such as Prometheus' forbid a second one.
    if (std::ranges::any_of(chosen, [&](const Metric& metric) { return key == metric.key; }))
      continue;
    chosen.push_back(find_metric(key, "--metric"));
    chosen.back().in_tables = true;  // a metric that was named must be shown
  }
  if (format == "github-action") require_direction(chosen, options.smaller_is_better);
  if (chosen.empty()) chosen = metrics();
  if (format == "github-action")
    return export_github_action(results, chosen, options.smaller_is_better);
  if (options.smaller_is_better)
    throw UserError("--smaller-is-better", "is for --to github-action alone", "leave it out");
  using Writer = std::string (*)(const ResultSet&, const std::vector<Metric>&);
  static const std::map<std::string, Writer> writers = {
      {"gbench", export_gbench}, {"bmf", export_bmf},           {"prometheus", export_prometheus},
      {"csv", export_csv},       {"markdown", export_markdown}, {"latex", export_latex}};
  const auto writer = writers.find(format);
  if (format == kOpenAsrLeaderboard) {
    throw UserError("--to " + format, "writes a folder of files", "name it with --output FOLDER");
  }
  if (writer == writers.end()) throw unknown_name("--to", "format", format, export_formats());
  return writer->second(results, chosen);
}

}  // namespace rtfx
