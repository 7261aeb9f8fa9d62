#include "harness/cli/watch_commands.h"

#include <fmt/format.h>

#include <optional>

#include "base/json.h"
#include "harness/cli/number_checks.h"
#include "harness/report/dashboard.h"
#include "harness/results/journal.h"
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
  auto* command =
      app.add_subcommand("noise", "the smallest change that this machine can show, by rounds");
  command
      ->add_option("run", args->runs,
                   "a run's folder, or a journal; several of one program tell how far runs differ")
      ->required()
      ->type_name("RUN");
  command->add_option("--metric", args->metrics, "of these (default: rtfx.total, rtfx.decode)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("METRIC,...");
  command
      ->add_option("--drift", args->drift,
                   fmt::format("standard deviation between runs of one program, as a share "
                               "(default: {}, or what the runs show)",
                               kRunDrift))
      ->check(between(0.0, 1.0))
      ->type_name("SHARE");
  command->add_flag("--json", args->json, "as JSON");
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
      "dashboard", "a folder with a page that shows the figures of many journals by revision");
  command->add_option("journals", args->journals, "folder with journals, at any depth")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--output", args->output, "folder for index.html and the runs' pages")
      ->required()
      ->type_name("FOLDER");
  command->add_flag("--pages", args->pages, "make the page of each run that has none");
  command->callback([args] { dashboard(*args); });
}

}  // namespace

void add_watch_commands(CLI::App& app) {
  add_noise(app);
  add_dashboard(app);
}

}  // namespace rtfx
