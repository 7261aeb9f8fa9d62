#include "harness/report/export.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"

namespace rtfx {

const std::vector<std::string>& export_formats() {
  static const std::vector<std::string> formats = {
      "gbench", "bmf",      "github-action", "prometheus",
      "csv",    "markdown", "latex",         kOpenAsrLeaderboard};
  return formats;
}

void require_measurement(const ResultSet& results) {
  for (const CaseResult* c : results.all()) {
    const auto build = c->provenance.value("rtfx", nlohmann::json::object());
    if (build.value("build_type", "Release") == "Release" && !build.value("sanitizer", false))
      continue;
    throw UserError(results.journal.string(), "comes from a build that is not for measuring",
                    "use the preset 'release'");
  }
}

std::string export_results(const ResultSet& results, const std::string& format,
                           const ExportOptions& options) {
  require_measurement(results);
  std::vector<Metric> chosen;
  for (const std::string& key : options.metrics) chosen.push_back(find_metric(key, "--metric"));
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
