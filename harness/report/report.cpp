#include "harness/report/report.h"

#include "harness/report/history.h"
#include "harness/report/python_script.h"
#include "harness/report/report_facts.h"
#include "harness/results/journal.h"
#include "harness/results/results.h"
#include "harness/results/table.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr size_t kMostUtterances = 5;  // whose words are shown for each case

}  // namespace

void report(const ReportOptions& options) {
  const ResultSet run = read_results(options.run);
  print_table(read_journal(run.journal));
  if (options.costs) print_costs(read_journal(run.journal));
  if (options.table_only) return;
  run.require_cases();
  const json facts = {
      {"differences", differences(run, kMostUtterances)},
      {"speed_ups", speed_ups(run)},
      {"baseline", options.baseline.empty()
                       ? json()
                       : changes_since(read_results(options.baseline).require_cases(), run)},
      {"history", options.history.empty() ? json() : history(run, read_history(options.history))}};
  std::vector<std::string> arguments = {run.journal.string()};
  if (!options.profile.empty())
    arguments.insert(arguments.end(), {"--profile", options.profile.string()});
  if (!options.output.empty()) arguments.insert(arguments.end(), {"-o", options.output.string()});
  run_script("report", "plots/report.py", arguments, to_line(facts));
}

}  // namespace rtfx
