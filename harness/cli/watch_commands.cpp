#include "harness/cli/watch_commands.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/json_file.h"
#include "harness/report/dashboard.h"
#include "harness/report/python_script.h"
#include "harness/results/journal.h"
#include "harness/results/metrics.h"
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
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE");
  command->add_flag("--json", args->json, "as JSON");
  command->callback([args] {
    std::vector<ResultSet> runs;
    for (const std::string& run : args->runs) runs.push_back(read_results(run));
    const auto rows = noise(runs, args->metrics, args->drift);
    args->json ? fmt::print("{}", to_line(noise_json(rows))) : print_noise(rows);
  });
}

void add_bisect(CLI::App& app) {
  struct Arguments {
    std::string good, bad, config, metric, build, program, output, tolerance, drift;
  };
  const auto args = std::make_shared<Arguments>();
  args->metric = "rtfx.decode";
  args->build = "scripts/build.sh --target rtfx";
  args->program = "build/release/rtfx";
  args->output = "runs/bisect";
  auto* command = app.add_subcommand(
      "bisect", "the commit since which a metric is worse, by `git bisect run` with the gate");
  command->add_option("good", args->good, "a revision that was still good")
      ->required()
      ->type_name("GOOD");
  command->add_option("bad", args->bad, "a revision that is worse")->required()->type_name("BAD");
  command->add_option("--config", args->config, "what to run on each revision")
      ->required()
      ->type_name("FILE");
  command->add_option("--metric", args->metric,
                      "one that the gate can judge; `results`: other tokens");
  command
      ->add_option("--tolerance", args->tolerance,
                   "how much worse a commit may be (default: half of what BAD has lost)")
      ->type_name("SHARE");
  command->add_option("--drift", args->drift, "as of `rtfx gate`: standard deviation between runs")
      ->type_name("SHARE");
  command->add_option("--build", args->build, "command that builds a revision, in its tree");
  command->add_option("--program", args->program, "what it builds, within the tree")
      ->type_name("FILE");
  command->add_option("--output", args->output, "folder for the tree and the runs' journals")
      ->type_name("FOLDER");
  command->callback([args] {
    if (args->metric != "results") {
      const Metric& metric = find_metric(args->metric, "--metric");
      if (!metric.tolerance && metric.change != Metric::Change::ratio)
        throw UserError("--metric " + args->metric, "this metric is shown, never gated", "");
    }
    become_script("scripts/bisect_commits.py",
                  {args->good, args->bad, "--config", args->config, "--metric", args->metric,
                   "--tolerance=" + args->tolerance, "--drift=" + args->drift, "--build",
                   args->build, "--program", args->program, "--output", args->output});
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
  add_bisect(app);
  add_dashboard(app);
}

}  // namespace rtfx
