#include "harness/report/report.h"

#include "base/json.h"
#include "harness/report/gate_report.h"
#include "harness/report/history.h"
#include "harness/report/python_script.h"
#include "harness/results/changes.h"
#include "harness/results/conclusion.h"
#include "harness/results/journal.h"
#include "harness/results/results.h"
#include "harness/results/table.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr size_t kMostUtterances = 5;  // utterances of each case whose words are shown

}  // namespace

std::filesystem::path page_of(const std::filesystem::path& journal) {
  const std::string stem = journal_name(journal);
  return journal.parent_path() / (stem == "journal" ? "report.html" : stem + ".html");
}

void report(const ReportOptions& options) {
  const ResultSet run = read_results(options.run);
  run.require_cases();
  const Summaries cases = all_of(run);
  if (!options.quiet) print_table(cases);
  if (options.costs) print_costs(cases);
  if (options.table_only) return;
  const Conclusion conclusion = conclude(cases);
  const json facts = {
      {"differences", differences(run, kMostUtterances)},
      {"wrong", conclusion.wrong},
      {"won", conclusion.won},
      {"noise_floors", speed_ups_json(run)["noise_floors"]},
      {"baseline", options.baseline.empty()
                       ? json()
                       : changes_since(read_results(options.baseline).require_cases(), run)},
      {"history", options.history.empty() ? json() : history(run, read_history(options.history))}};
  std::vector<std::string> arguments = {run.journal.string()};
  if (!options.profile.empty())
    arguments.insert(arguments.end(), {"--profile", options.profile.string()});
  const auto page = options.output.empty() ? page_of(run.journal) : options.output;
  arguments.insert(arguments.end(), {"-o", page.string()});
  run_script("report", "plots/report.py", arguments, to_line(facts));
}

}  // namespace rtfx
