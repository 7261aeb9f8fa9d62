#include "harness/report/export.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"

namespace rtfx {

const std::vector<std::string>& export_formats() {
  static const std::vector<std::string> formats = {"gbench",   "bmf",   "github-action",    "csv",
                                                   "markdown", "latex", kOpenAsrLeaderboard};
  return formats;
}

void require_measurement(const ResultSet& results) {
  for (const CaseResult& c : results.cases) {
    const auto build = c.provenance.value("rtfx", nlohmann::json::object());
    if (build.value("build_type", "Release") == "Release" && !build.value("sanitizer", false))
      continue;
    throw UserError(results.journal.string(), "comes from a build that is not for measuring",
                    "use the preset 'release'");
  }
}

std::string export_results(const ResultSet& results, const std::string& format,
                           bool smaller_is_better) {
  require_measurement(results);
  if (format == "github-action") return export_github_action(results, smaller_is_better);
  if (smaller_is_better)
    throw UserError("--smaller-is-better", "is for --to github-action alone", "leave it out");
  static const std::map<std::string, std::string (*)(const ResultSet&)> writers = {
      {"gbench", export_gbench},
      {"bmf", export_bmf},
      {"csv", export_csv},
      {"markdown", export_markdown},
      {"latex", export_latex}};
  const auto writer = writers.find(format);
  if (format == kOpenAsrLeaderboard) {
    throw UserError("--to " + format, "writes a folder of files", "name it with --output FOLDER");
  }
  if (writer == writers.end()) throw unknown_name("--to", "format", format, export_formats());
  return writer->second(results);
}

}  // namespace rtfx
