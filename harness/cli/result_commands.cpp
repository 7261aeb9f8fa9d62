#include "harness/cli/result_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/terminal.h"
#include "harness/cli/arguments.h"
#include "harness/config/document.h"
#include "harness/report/export.h"
#include "harness/report/gate_report.h"
#include "harness/report/open_asr_leaderboard.h"
#include "harness/report/summary_writer.h"
#include "harness/results/changes.h"
#include "harness/results/comparability.h"
#include "harness/results/compare.h"
#include "harness/results/conclusion.h"
#include "harness/results/gate.h"
#include "harness/results/metrics.h"
#include "harness/run/caching_audit.h"
#include "harness/run/rescore.h"
#include "harness/run/verify.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

/// Parses tolerances such as "rtfx.decode=0.05".
Tolerances parse_tolerances(const std::vector<std::string>& texts) {
  Tolerances tolerances;
  for (const std::string& text : texts) {
    const std::string where = "--tolerance " + text;
    const size_t equals = text.find('=');
    const Metric& metric = find_metric(text.substr(0, equals), where);
    if (!metric.tolerance && metric.change != Metric::Change::ratio)
      throw UserError(where, "the gate does not judge this metric", "");
    const auto value = equals == std::string::npos
                           ? std::nullopt
                           : parse_number<double>(std::string_view(text).substr(equals + 1));
    if (!value || !(*value >= 0 && *value < 1))
      throw UserError(where, "needs a share of at least 0 and below 1",
                      "for example --tolerance rtfx.decode=0.05");
    tolerances[metric.key] = *value;
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

/// Reads the results of a run for the gate, which judges those of a profile as INVALID. Throws
/// UserError if the journal has none.
ResultSet read_for_gate(const std::string& run) {
  ResultSet results = read_results(run);
  if (!results.profiled) results.require_results();
  return results;
}

/// Returns the exit code of the gravest verdict.
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

void add_allow_inconclusive(CLI::App& command, bool& allow) {
  command.add_flag("--allow-inconclusive", allow, "Exit with 0 if the verdict is INCONCLUSIVE.");
}

void add_compare(CLI::App& app) {
  struct Arguments {
    std::string a, b;
    bool json = false;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("compare",
                                     "Compare two runs case by case, or the decoders of one run "
                                     "with their baseline. Prints changes with 95 % intervals.");
  command->add_option("a", args->a, kRunHelp)->required()->type_name(kRun);
  command
      ->add_option("b", args->b,
                   "Second run, compared with the first. Without it, the decoders of the first run "
                   "are compared.")
      ->type_name(kRun);
  command->add_flag("--json", args->json, "Print JSON instead of text.");
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
      "Judge whether a run is slower or less accurate than a baseline run. The exit code is the "
      "verdict: 0 PASS, 10 REGRESSED, 11 INCONCLUSIVE, 12 INVALID, 13 CORRECTNESS.");
  command->add_option("current", args->current, kRunHelp)->required()->type_name(kRun);
  command
      ->add_option("--baseline", args->baselines,
                   "Folder or journal of a run to compare with. May be repeated. With five "
                   "baselines or more, their spread replaces the assumed variation between runs.")
      ->required()
      ->allow_extra_args(false)
      ->type_name(kRun);
  command
      ->add_option("--tolerance", args->tolerances,
                   "How much a metric may get worse, as a share: rtfx.decode=0.05 allows a loss of "
                   "5 %. May be repeated.")
      ->allow_extra_args(false)
      ->type_name("METRIC=SHARE");
  add_drift(*command, args->drift, "baselines");
  command
      ->add_option(
          "--allow", args->allowed,
          "Conditions that may differ, separated by commas. libtorch: LibTorch with CUDA and "
          "cuDNN. driver: CUDA driver. encoder: how the encoder is computed. scorer: text "
          "normalisation; the WER is then not compared. decoder: source of a decoder in Python.")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KIND,...");
  command
      ->add_option("--junit", args->junit,
                   "Also write the verdicts as JUnit XML, with a test for each row of the table.")
      ->type_name("FILE");
  command
      ->add_option("--markdown", args->markdown,
                   "Also write a summary with the verdict in Markdown.")
      ->type_name("FILE");
  command->add_flag("--json", args->json, "Print JSON instead of the table.");
  add_allow_inconclusive(*command, args->allow_inconclusive);
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
              {"records", {{"checked", verification.checked}, {"sound", verification.consistent}}},
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
  auto* command =
      app.add_subcommand("verify",
                         "Check a journal that somebody else made: judge its records, run some of "
                         "its cases again, and compare. Exit codes are those of `rtfx gate`.");
  command->add_option("journal", args->journal, kRunHelp)->required()->type_name(kRun);
  command
      ->add_option("--sample", options.sample,
                   "Number of cases that are drawn at random and run again.")
      ->check(at_least(1));
  command
      ->add_option("--seed", options.seed,
                   "Seed of the random draw (default: another one each time, which is printed).")
      ->check(at_least(0));
  command
      ->add_option("--rounds", options.rounds,
                   "Number of measured rounds of each case that is run again.")
      ->check(at_least(1));
  command->add_option("--only", options.only, "Draw only cases whose name contains this text.")
      ->type_name("TEXT");
  command
      ->add_option("--set", options.overrides,
                   "Override a key of the journal's configuration, mostly the path of a file on "
                   "this machine, such as models.0.path=m.nemo. May be repeated.")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command
      ->add_option(
          "--device", options.device,
          "Device: cpu, cuda or cuda:N (default: cpu or cuda, as the journal was measured).")
      ->type_name("DEVICE");
  command
      ->add_option("--output", options.output,
                   "Folder for the journal of the rerun. An earlier journal there is kept as "
                   "journal.jsonl.N.")
      ->type_name("FOLDER");
  command->add_flag("--json", args->json, "Print JSON instead of the table.");
  add_allow_inconclusive(*command, args->allow_inconclusive);
  // A hidden option for the child process of each audit. The child gets the configuration in place
  // of a journal.
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
  auto* command =
      app.add_subcommand("export", "Export the results of a run in the format of another tool.");
  command->add_option("run", args->run, kRunHelp)->required()->type_name(kRun);
  command
      ->add_option(
          "--to", args->format,
          "Format. gbench: Google Benchmark. bmf: Bencher. github-action: github-action-benchmark. "
          "prometheus: gauges for node_exporter. csv: all figures. markdown, latex: tables. "
          "open-asr-leaderboard: a folder of hypotheses.")
      ->required()
      ->type_name("FORMAT");
  command
      ->add_option("-o,--output", args->output,
                   "File for the export (default: standard output). For open-asr-leaderboard: a "
                   "folder, which is required.")
      ->type_name("FILE");
  command
      ->add_option("--metric", args->options.metrics,
                   "Metrics to export, separated by commas (see `rtfx list metrics`). Default: "
                   "all; in markdown and latex without those that repeat a column.")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("METRIC,...");
  command->add_flag("--smaller-is-better", args->options.smaller_is_better,
                    "With --to github-action: export the metrics of which less is better, instead "
                    "of those of which more is better.");
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
  auto* command = app.add_subcommand("summary",
                                     "Print the means, grades and marks of all cases of a run as "
                                     "JSON. The scripts in plots/ read it.");
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
      "diff-runs", "Show how the environments and configurations of two runs differ.");
  command->add_option("a", args->a, kRunHelp)->required()->type_name(kRun);
  command->add_option("b", args->b, kRunHelp)->required()->type_name(kRun);
  command->callback([args] {
    const ResultSet a = read_results(args->a), b = read_results(args->b);
    for (const ResultSet* set : {&a, &b})
      if (!set->profiled) set->require_results();  // a profile has an environment, too
    print_provenance_changes(provenance_changes(a.provenance, b.provenance));
    for (const ResultSet* set : {&a, &b}) print_earlier_invocations(*set);
    print_counted_rounds(a, b);
  });
}

void add_rescore(CLI::App& app) {
  struct Arguments {
    std::string run, scorer, output;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "rescore",
      "Compute word error rates of stored hypotheses with another scorer, without decoding again.");
  command->add_option("run", args->run, "Folder of a run, with its hypotheses.")
      ->required()
      ->type_name(kRun);
  command
      ->add_option(
          "--scorer", args->scorer,
          "Text normalisation. none: words between ASCII white space. basic_english: lower case "
          "without punctuation. unicode_words: basic_english, divided at Unicode's word "
          "boundaries, for scripts without spaces. whisper_english: Whisper's rules.")
      ->required()
      ->type_name("SCORER");
  command
      ->add_option("--output", args->output,
                   "Folder for a copy of the journal with the new word error rates (default: no "
                   "copy is written).")
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

}  // namespace rtfx
