#include "harness/cli/watch_commands.h"

#include <fmt/format.h>

#include <optional>

#include "base/json.h"
#include "harness/cli/arguments.h"
#include "harness/report/dashboard.h"
#include "harness/results/noise.h"

namespace rtfx {

namespace {

void add_noise(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> runs, metrics;
    std::optional<double> drift;
    bool json = false;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("noise",
                                     "Print the smallest change that this machine can show, for "
                                     "each case and several numbers of rounds.");
  command
      ->add_option(
          "run", args->runs,
          "Folder of a run, or its journal. Several runs of one program show how far runs differ.")
      ->required()
      ->type_name(kRun);
  command
      ->add_option("--metric", args->metrics,
                   "Metrics to examine, separated by commas (default: rtfx.total, rtfx.decode).")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("METRIC,...");
  add_drift(*command, args->drift, "runs");
  command->add_flag("--json", args->json, "Print JSON instead of text.");
  command->callback([args] {
    std::vector<ResultSet> runs;
    for (const std::string& run : args->runs) runs.push_back(read_results(run));
    const auto rows = noise(runs, args->metrics, args->drift);
    args->json ? fmt::print("{}", to_line(noise_json(rows))) : print_noise(rows);
  });
}

void add_dashboard(CLI::App& app) {
  const auto args = std::make_shared<DashboardOptions>();
  auto* command = app.add_subcommand(
      "dashboard",
      "Write a folder of web pages that show how the figures of many journals change by revision.");
  command
      ->add_option("journals", args->journals, "Folder with journals, which may be in sub-folders.")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--output", args->output, "Folder for index.html and the pages of the runs.")
      ->required()
      ->type_name("FOLDER");
  command->add_flag("--pages", args->pages, "Also make the page of each run that has none.");
  command->callback([args] { dashboard(*args); });
}

}  // namespace

void add_watch_commands(CLI::App& app) {
  add_noise(app);
  add_dashboard(app);
}

}  // namespace rtfx
