#include "harness/cli/result_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "harness/cli/arguments.h"
#include "harness/config/document.h"
#include "harness/report/dashboard.h"
#include "harness/report/export.h"
#include "harness/report/gate_report.h"
#include "harness/report/open_asr_leaderboard.h"
#include "harness/report/report.h"
#include "harness/report/reproduce.h"
#include "harness/results/changes.h"
#include "harness/results/compare.h"
#include "harness/results/conclusion.h"
#include "harness/results/gate.h"
#include "harness/results/metrics.h"
#include "harness/results/noise.h"
#include "harness/run/caching_audit.h"
#include "harness/run/rescore.h"
#include "harness/run/verify.h"
#include "harness/scoring/normalize.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

constexpr const char* kRunHelp = "a run's folder, or a journal";
constexpr const char* kRun = "RUN";

/// "rtfx.decode=0.05"
Tolerances parse_tolerances(const std::vector<std::string>& texts) {
  Tolerances tolerances;
  for (const std::string& text : texts) {
    const std::string where = "--tolerance " + text;
    const size_t equals = text.find('=');
    const Metric& metric = find_metric(text.substr(0, equals), where);
    if (!metric.tolerance && metric.change != Metric::Change::ratio)
      throw UserError(where, "this metric is shown, never gated", "");
    double value = -1;
    size_t read = 0;
    try {
      if (equals != std::string::npos) value = std::stod(text.substr(equals + 1), &read);
    } catch (const std::exception&) {
      read = 0;
    }
    if (!(value >= 0 && value < 1) || equals + 1 + read != text.size())
      throw UserError(where, "no share of 1", "for example --tolerance rtfx.decode=0.05");
    tolerances[metric.key] = value;
  }
  return tolerances;
}

struct GateArguments {
  std::string current;
  std::vector<std::string> baselines, tolerances, allowed;
  std::optional<double> drift;
  std::string junit, markdown;
  bool allow_inconclusive = false, json = false;
};

/// The results of a run for the gate, which judges those of a profile as INVALID. Throws UserError
/// where the journal has none.
ResultSet read_for_gate(const std::string& run) {
  ResultSet results = read_results(run);
  if (!results.profiled) results.require_results();
  return results;
}

/// The exit code of the gravest verdict.
int verdict_code(const std::vector<GateRow>& rows, bool allow_inconclusive) {
  const Verdict verdict = worst(rows);
  const bool allowed = verdict == Verdict::inconclusive && allow_inconclusive;
  return allowed ? kOk : static_cast<int>(verdict);
}

void print_verdict(const std::vector<GateRow>& rows, int code) {
  const Verdict verdict = worst(rows);
  fmt::print("\n{}\n", to_string(verdict));
  if (code != static_cast<int>(verdict))
    fmt::print("--allow-inconclusive: the exit code is {}\n", code);
}

int run_gate(const GateArguments& args) {
  std::vector<ResultSet> baselines;
  for (const std::string& baseline : args.baselines) baselines.push_back(read_for_gate(baseline));
  for (const std::string& kind : args.allowed) {
    const auto& kinds = allowable_differences();
    if (std::ranges::find(kinds, kind) == kinds.end())
      throw unknown_name("--allow", "difference", kind, kinds);
  }
  const auto rows = gate(baselines, read_for_gate(args.current),
                         {.tolerances = parse_tolerances(args.tolerances),
                          .allowed = {args.allowed.begin(), args.allowed.end()},
                          .drift = args.drift});
  if (!args.junit.empty()) write_file(args.junit, gate_junit(rows, args.allow_inconclusive));
  if (!args.markdown.empty()) write_file(args.markdown, gate_markdown(rows));
  const int code = verdict_code(rows, args.allow_inconclusive);
  print_while_read([&] {
    if (args.json) {
      fmt::print("{}", to_line(gate_json(rows)));
      return;
    }
    print_gate(rows);
    print_conclusion({}, conclude(rows));
    print_verdict(rows, code);
  });
  return code;
}

void add_compare(CLI::App& app) {
  struct Arguments {
    std::string a, b;
    bool json = false;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "compare", "effect sizes with intervals: two runs, or the decoders of one run");
  command->add_option("a", args->a, kRunHelp)->required()->type_name(kRun);
  command->add_option("b", args->b, "the run to compare it with; without one, decoders of A")
      ->type_name(kRun);
  command->add_flag("--json", args->json, "as JSON");
  command->callback([args] {
    const ResultSet a = read_results(args->a);
    if (args->b.empty())
      return args->json ? fmt::print("{}", to_line(speed_ups_json(a))) : print_speed_ups(a);
    const ResultSet b = read_results(args->b);
    args->json ? fmt::print("{}", to_line(comparison_json(a, b))) : print_comparison(a, b);
  });
}

void add_gate(CLI::App& app, int& code) {
  const auto args = std::make_shared<GateArguments>();
  auto* command = app.add_subcommand(
      "gate",
      "verdict against a baseline by exit code: 0 PASS, 10 REGRESSED, 11 INCONCLUSIVE, "
      "12 INVALID, 13 CORRECTNESS");
  command->add_option("current", args->current, kRunHelp)->required()->type_name(kRun);
  command
      ->add_option("--baseline", args->baselines,
                   "a run's folder, or a journal; given five times or more, their spread says how "
                   "far runs differ")
      ->required()
      ->allow_extra_args(false)
      ->type_name(kRun);
  command
      ->add_option("--tolerance", args->tolerances,
                   "metric=share: by how much it may get worse, such as rtfx.decode=0.05")
      ->allow_extra_args(false)
      ->type_name("METRIC=SHARE");
  command
      ->add_option("--drift", args->drift,
                   fmt::format("standard deviation between runs of one program, as a share "
                               "(default: {}, or what the baselines show)",
                               kRunDrift))
      ->check(between(0.0, 1.0))
      ->type_name("SHARE");
  command
      ->add_option("--allow", args->allowed,
                   fmt::format("what may differ: {}", fmt::join(allowable_differences(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KIND,...");
  command->add_option("--junit", args->junit, "write JUnit XML too: a test for each row")
      ->type_name("FILE");
  command->add_option("--markdown", args->markdown, "write a summary with the verdict too")
      ->type_name("FILE");
  command->add_flag("--json", args->json, "print JSON in place of the table");
  command->add_flag("--allow-inconclusive", args->allow_inconclusive,
                    "exit with 0 where the verdict is INCONCLUSIVE");
  command->callback([args, &code] { code = run_gate(*args); });
}

nlohmann::json verification_json(const Verification& verification) {
  nlohmann::json left_out = nlohmann::json::array();
  for (const auto& [name, why] : verification.left_out)
    left_out.push_back({{"case", name}, {"why", why}});
  nlohmann::json out = gate_json(verification.rows);
  if (verification.not_repeated && verification.rows.empty()) out["verdict"] = nullptr;
  out.update({{"journal", verification.journal.string()},
              {"cases", verification.cases},
              {"records", {{"checked", verification.checked}, {"sound", verification.sound}}},
              {"seed", verification.seed},
              {"sampled", verification.sampled},
              {"left_out", left_out}});
  return out;
}

void add_verify(CLI::App& app, int& code) {
  struct Arguments {
    std::string journal, child;
    VerifyOptions options;
    bool json = false, allow_inconclusive = false;
  };
  const auto args = std::make_shared<Arguments>();
  VerifyOptions& options = args->options;
  options.output = "runs/verify";
  auto* command = app.add_subcommand(
      "verify", "run a sample of somebody else's journal again and compare; exit codes as gate's");
  command->add_option("journal", args->journal, kRunHelp)->required()->type_name(kRun);
  command->add_option("--sample", options.sample, "cases that are drawn and run again")
      ->check(at_least(1));
  command->add_option("--seed", options.seed, "of what is drawn (default: another one each time)")
      ->check(at_least(0));
  command->add_option("--rounds", options.rounds, "measured passes of the rerun")
      ->check(at_least(1));
  command->add_option("--only", options.only, "only cases with this in their name")
      ->type_name("TEXT");
  command
      ->add_option("--set", options.overrides,
                   "override of the journal's configuration, above all where its files are here: "
                   "models.0.path=m.nemo")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command
      ->add_option("--device", options.device,
                   "cpu, cuda or cuda:N (default: as the journal was measured)")
      ->type_name("DEVICE");
  command
      ->add_option("--output", options.output,
                   "folder of the rerun; an earlier journal there is kept as journal.jsonl.N")
      ->type_name("FOLDER");
  command->add_flag("--json", args->json, "print JSON in place of the table");
  command->add_flag("--allow-inconclusive", args->allow_inconclusive,
                    "exit with 0 where the verdict is INCONCLUSIVE");
  // Hidden: it gives this to the child process of each audit, with the configuration in place of a
  // journal.
  command->add_option("--child", args->child)->group("");
  command->callback([args, &code] {
    if (!args->child.empty()) {
      write_audit(parse_config(read_document(args->journal)), args->options.seed.value_or(0),
                  args->child);
      return;
    }
    try {
      const Verification verification = verify(args->journal, args->options);
      print_while_read([&] {
        args->json ? fmt::print("{}", to_line(verification_json(verification)))
                   : print_verification(verification);
      });
      if (verification.not_repeated) {
        if (verification.rows.empty()) std::rethrow_exception(verification.not_repeated);
        try {
          std::rethrow_exception(verification.not_repeated);
        } catch (const UserError& error) {  // the verdict on the records is graver
          print_error(error);
        }
      }
      code = verdict_code(verification.rows, args->allow_inconclusive);
      if (!args->json) print_verdict(verification.rows, code);
    } catch (const Interrupted&) {
      code = kInterrupted;
    }
  });
}

void add_export(CLI::App& app) {
  struct Arguments {
    std::string run, format, output;
    ExportOptions options;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("export", "a run's results in the format of another tool");
  command->add_option("run", args->run, kRunHelp)->required()->type_name(kRun);
  command->add_option("--to", args->format, fmt::format("{}", fmt::join(export_formats(), ", ")))
      ->required()
      ->type_name("FORMAT");
  command
      ->add_option("-o,--output", args->output,
                   "file (default: standard output); open-asr-leaderboard: folder")
      ->type_name("FILE");
  command
      ->add_option("--metric", args->options.metrics,
                   "these alone, see `rtfx list metrics` (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("METRIC,...");
  command->add_flag("--smaller-is-better", args->options.smaller_is_better,
                    "github-action: the metrics of which less is better");
  command->callback([args] {
    if (args->format == kOpenAsrLeaderboard && !args->output.empty()) {
      if (args->options.smaller_is_better)
        throw UserError("--smaller-is-better", "is for --to github-action alone", "leave it out");
      if (!args->options.metrics.empty())
        throw UserError("--metric", "chooses nothing in --to open-asr-leaderboard", "leave it out");
      const ResultSet results = read_results(args->run);
      require_measurement(results.require_cases());
      for (const std::string& name : write_open_asr_leaderboard(results, args->output))
        fmt::print("{}\n", (std::filesystem::path(args->output) / name).string());
      return;
    }
    const std::string text =
        export_results(read_results(args->run).require_results(), args->format, args->options);
    if (args->output.empty()) {
      fmt::print("{}", text);
    } else {
      write_file(args->output, text);
    }
  });
}

void add_summary(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "summary", "means, grades and marks of a run's cases as JSON: what figures and pages show");
  command->add_option("run", *run, kRunHelp)->required()->type_name(kRun);
  command->callback([run] {
    write_summary(read_results(*run).require_results(),
                  [](std::string_view part) { fmt::print("{}", part); });
  });
}

void add_diff_runs(CLI::App& app) {
  struct Arguments {
    std::string a, b;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "diff-runs", "what changed between two runs' environments and configurations");
  command->add_option("a", args->a, kRunHelp)->required()->type_name(kRun);
  command->add_option("b", args->b, kRunHelp)->required()->type_name(kRun);
  command->callback([args] {
    const ResultSet a = read_results(args->a), b = read_results(args->b);
    for (const ResultSet* set : {&a, &b})
      if (!set->profiled) set->require_results();  // a profile has an environment, too
    print_provenance_changes(provenance_changes(a.provenance, b.provenance));
    print_counted_rounds(a, b);
  });
}

void add_rescore(CLI::App& app) {
  struct Arguments {
    std::string run, scorer, output;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "rescore", "word error rates of stored hypotheses by another scorer, without decoding");
  command->add_option("run", args->run, "a run's folder, with its hypotheses")
      ->required()
      ->type_name(kRun);
  command
      ->add_option("--scorer", args->scorer, fmt::format("{}", fmt::join(normalizer_names(), ", ")))
      ->required()
      ->type_name("SCORER");
  command
      ->add_option("--output", args->output, "folder for a journal with the new word error rates")
      ->type_name("FOLDER");
  command->callback([args] { rescore(args->run, args->scorer, args->output); });
}

}  // namespace

void add_result_commands(CLI::App& app, int& code) {
  add_compare(app);
  add_gate(app, code);
  add_verify(app, code);
  add_export(app);
  add_summary(app);
  add_diff_runs(app);
  add_rescore(app);
}

namespace {

struct ReproduceArguments {
  std::string table, journal;
  ConfigArguments config;
  JournalMode mode;
  int64_t quick = 0;
  bool latex = false, yes = false, all = false;

  /// Renders what is in the folder of --from, or of runs/, without running anything.
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
      // A folder of its own, so that a quick run never continues a whole one. Its journal holds
      // the limit, which the table then states.
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
  command
      ->add_flag("--all", args->all,
                 "one page of all tables whose journals are in the folder of --from (default: "
                 "runs), without running: tables.md there or in the folder of --output")
      ->excludes(quick);
  command->add_flag("--yes", args->yes, "run a large model on a CPU without asking");
  command->add_flag("--latex", args->latex, "write the table as LaTeX too");
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
