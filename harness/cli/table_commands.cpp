#include "harness/cli/table_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "harness/cli/arguments.h"
#include "harness/report/report.h"
#include "harness/report/reproduce.h"

namespace rtfx {

namespace {

struct ReproduceArguments {
  std::string table, journal;
  ConfigArguments config;
  JournalMode mode;
  int64_t quick = 0;
  bool latex = false, yes = false, all = false;

  /// Renders the journals of --from, or of runs/, without running anything.
  void render_all() const {
    const std::filesystem::path runs = journal.empty() ? "runs" : journal;
    rtfx::render_all(runs, config.output.empty() ? runs : std::filesystem::path(config.output));
  }

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
      // A quick run has a folder of its own, so that it never continues a whole one. Its journal
      // holds the limit, and the table states it.
      if (config.output.empty()) config.output = loaded.output.string() + "_quick";
      loaded = config.load();
    }
    require_consent(loaded, yes);
    const int result = run_table(loaded, mode.mode());
    if (result != kInterrupted) render_table(config.file, loaded.output, "", latex);
    return result;
  }
};

void add_reproduce(CLI::App& app, int& code) {
  const auto args = std::make_shared<ReproduceArguments>();
  auto* command = app.add_subcommand("reproduce",
                                     "Run the configuration of a published table, and print our "
                                     "figures beside the published ones.");
  command->add_option("table", args->table, "Name of the table. Without it, rtfx lists all tables.")
      ->type_name("TABLE");
  args->config.add_overrides_to(*command);
  args->mode.add_to(*command);
  auto* quick = command
                    ->add_option("--quick", args->quick,
                                 "Use only the first N utterances of each dataset, for a first "
                                 "look. The table is then marked QUICK.")
                    ->check(at_least(1))
                    ->default_str("");
  auto* from =
      command
          ->add_option(
              "--from", args->journal,
              "Make the table from this journal or folder of a run, without running anything. The "
              "files go to --output (default: beside the journal).")
          ->type_name(kRun)
          ->excludes(quick);
  auto* all =
      command
          ->add_flag(
              "--all", args->all,
              "Make one page, tables.md, of all tables whose journals are in the folder of --from "
              "(default: runs), without running anything. It goes to --output (default: that "
              "folder).")
          ->excludes(quick);
  command->add_flag("--yes", args->yes, "Run a large model on a CPU without asking first.");
  auto* latex = command->add_flag("--latex", args->latex, "Also write the table as LaTeX.");
  all->excludes(latex);
  // These options say how to run, and neither --from nor --all runs anything.
  for (const char* name :
       {"--set", "--device", "--threads", "--sync-debug", "--resume", "--force", "--yes"}) {
    from->excludes(command->get_option(name));
    all->excludes(command->get_option(name));
  }
  command->callback([args, command, &code] {
    const auto is_given = [](const CLI::Option* option) { return option->count() > 0; };
    if (args->all && !args->table.empty())
      throw UserError("reproduce", "--all is for all tables", "leave out the name, or --all");
    if (args->all) return args->render_all();
    if (args->table.empty() && std::ranges::any_of(command->get_options(), is_given)) {
      throw UserError("reproduce", "names no table",
                      "give a name that `rtfx reproduce` lists, or --all");
    }
    if (args->table.empty()) return print_tables();
    code = args->run();
  });
}

void add_report(CLI::App& app) {
  const auto args = std::make_shared<ReportOptions>();
  auto* command =
      app.add_subcommand("report", "Print the table of a run, and write its HTML page.");
  command->add_option("run", args->run, kRunHelp)->required()->type_name(kRun);
  command
      ->add_option("--baseline", args->baseline,
                   "Earlier run, as a folder or a journal. The page then shows what changed since "
                   "then, with 95 % intervals.")
      ->type_name(kRun);
  command
      ->add_option("--history", args->history,
                   "Folder with the journals of earlier runs. The page then shows RTFx and WER "
                   "over the revisions of rtfx.")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--profile", args->profile,
          "File profile.jsonl of `rtfx profile`, or its folder (default: beside the journal).")
      ->type_name("FILE");
  command
      ->add_option("-o,--output", args->output,
                   "File for the HTML page (default: report.html beside journal.jsonl, NAME.html "
                   "beside NAME.jsonl).")
      ->type_name("FILE");
  auto* table_only = command->add_flag("--table-only", args->table_only,
                                       "Print the table only, without writing a page.");
  // These options are for the page.
  for (const char* name : {"--baseline", "--history", "--profile", "--output"})
    table_only->excludes(command->get_option(name));
  command->add_flag("--costs", args->costs,
                    "Also print the time of a batch, the GPU memory and the energy of each case.");
  command->callback([args] { rtfx::report(*args); });
}

}  // namespace

void add_table_commands(CLI::App& app, int& code) {
  add_reproduce(app, code);
  add_report(app);
}

}  // namespace rtfx
