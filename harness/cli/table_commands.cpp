#include "harness/cli/table_commands.h"

#include <fmt/format.h>

#include "base/error.h"
#include "harness/cli/config_arguments.h"
#include "harness/cli/number_checks.h"
#include "harness/report/report.h"
#include "harness/report/reproduce.h"

namespace rtfx {
namespace {

struct ReproduceArguments {
  std::string table, journal;
  ConfigArguments config;
  JournalMode mode;
  int64_t quick = 0;
  bool latex = false;

  int run() {
    config.file = table_file(table).string();
    if (!journal.empty()) {
      render_table(config.file, journal, config.output, latex);
      return kOk;
    }
    Config loaded = config.load();
    if (quick > 0) {
      for (size_t i = 0; i < loaded.datasets.size(); ++i)
        config.overrides.push_back(fmt::format("datasets.{}.limit={}", i, quick));
      // A folder of its own, so that a quick run never continues a whole one. Its journal holds
      // the limit, which the table then states.
      if (config.output.empty()) config.output = loaded.output.string() + "_quick";
      loaded = config.load();
    }
    const int result = run_table(loaded, mode.mode());
    if (result != kInterrupted) render_table(config.file, loaded.output, "", latex);
    return result;
  }
};

void add_reproduce(CLI::App& app, int& code) {
  const auto args = std::make_shared<ReproduceArguments>();
  auto* command = app.add_subcommand(
      "reproduce", "run the configuration of a published table and set ours beside its figures");
  command->add_option("table", args->table, "its name; without one, the tables are listed")
      ->type_name("TABLE");
  args->config.add_overrides_to(*command);
  args->mode.add_to(*command);
  auto* quick =
      command->add_option("--quick", args->quick, "only the first N utterances of each set")
          ->check(at_least(1))
          ->default_str("");
  command
      ->add_option("--from", args->journal,
                   "journal or folder of a run: only render it, beside the journal or into the "
                   "folder of --output")
      ->type_name("RUN")
      ->excludes(quick);
  command->add_flag("--latex", args->latex, "write the table as LaTeX too");
  command->callback([args, &code] {
    if (args->table.empty()) return print_tables();
    code = args->run();
  });
}

void add_report(CLI::App& app) {
  const auto args = std::make_shared<ReportOptions>();
  auto* command = app.add_subcommand("report", "table and HTML page of a run");
  command->add_option("run", args->run, "folder with journal.jsonl, or a journal")
      ->required()
      ->type_name("RUN");
  command
      ->add_option("--baseline", args->baseline,
                   "an earlier run: what changed since, with intervals")
      ->type_name("RUN");
  command
      ->add_option("--history", args->history,
                   "folder with the journals of earlier runs: RTFx and WER over revisions")
      ->type_name("FOLDER");
  command
      ->add_option("--profile", args->profile,
                   "profile.jsonl of `rtfx profile` (default: beside the journal)")
      ->type_name("FILE");
  command
      ->add_option("-o,--output", args->output,
                   "the page (default: report.html beside the journal)")
      ->type_name("FILE");
  command->add_flag("--table-only", args->table_only, "print the table, make no page");
  command->add_flag("--costs", args->costs,
                    "print time of a batch, GPU memory and energy of each case too");
  command->callback([args] { rtfx::report(*args); });
}

}  // namespace

void add_table_commands(CLI::App& app, int& code) {
  add_reproduce(app, code);
  add_report(app);
}

}  // namespace rtfx
