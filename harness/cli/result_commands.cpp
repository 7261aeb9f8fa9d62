#include "harness/cli/result_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/output_file.h"
#include "harness/report/export.h"
#include "harness/results/compare.h"
#include "harness/results/gate.h"
#include "harness/results/journal.h"
#include "harness/results/metrics.h"
#include "harness/results/provenance_diff.h"
#include "harness/results/summaries.h"
#include "harness/run/rescore.h"

namespace rtfx {
namespace {

constexpr const char* kRunHelp = "a run's folder, or a journal";

/// "rtfx.decode=0.05"
Tolerances parse_tolerances(const std::vector<std::string>& texts) {
  Tolerances tolerances;
  for (const std::string& text : texts) {
    const std::string where = "--tolerance " + text;
    const size_t equals = text.find('=');
    const Metric& metric = find_metric(text.substr(0, equals), where);
    if (!metric.tolerance) throw UserError(where, "this metric is shown, never gated", "");
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

int run_gate(const std::string& baseline, const std::string& current,
             const std::vector<std::string>& tolerances, bool allow_inconclusive) {
  const auto rows =
      gate(read_results(baseline), read_results(current), parse_tolerances(tolerances));
  print_gate(rows);
  const Verdict verdict = worst(rows);
  fmt::print("\n{}\n", to_string(verdict));
  if (verdict == Verdict::inconclusive && allow_inconclusive) {
    fmt::print("--allow-inconclusive: the exit code is 0\n");
    return 0;
  }
  return static_cast<int>(verdict);
}

}  // namespace

struct ResultCommands::Arguments {
  std::string a, b, baseline, format, output, scorer;
  std::vector<std::string> tolerances;
  bool allow_inconclusive = false, smaller = false;
};

ResultCommands::~ResultCommands() = default;

ResultCommands::ResultCommands(CLI::App& app, int& code)
    : arguments_(std::make_unique<Arguments>()) {
  Arguments& args = *arguments_;

  auto* compare = app.add_subcommand(
      "compare", "effect sizes with intervals: two runs, or the decoders of one run");
  compare->add_option("a", args.a, kRunHelp)->required();
  compare->add_option("b", args.b, "the run to compare it with; without one, decoders of A");
  compare->callback([&args] {
    if (args.b.empty()) return print_speed_ups(read_results(args.a));
    print_comparison(read_results(args.a), read_results(args.b));
  });

  auto* gate_command = app.add_subcommand(
      "gate",
      "verdict against a baseline by exit code: 0 PASS, 10 REGRESSED, 11 INCONCLUSIVE, "
      "12 INVALID, 13 CORRECTNESS");
  gate_command->add_option("current", args.a, kRunHelp)->required();
  gate_command->add_option("--baseline", args.baseline, kRunHelp)->required();
  gate_command->add_option("--tolerance", args.tolerances,
                           "metric=share: by how much it may get worse, such as rtfx.decode=0.05");
  gate_command->add_flag("--allow-inconclusive", args.allow_inconclusive,
                         "exit with 0 where the verdict is INCONCLUSIVE");
  gate_command->callback([&args, &code] {
    code = run_gate(args.baseline, args.a, args.tolerances, args.allow_inconclusive);
  });

  auto* export_command =
      app.add_subcommand("export", "a run's results in the format of another tool");
  export_command->add_option("run", args.a, kRunHelp)->required();
  export_command
      ->add_option("--to", args.format, fmt::format("{}", fmt::join(export_formats(), ", ")))
      ->required();
  export_command->add_option("-o,--output", args.output, "file (default: standard output)");
  export_command->add_flag("--smaller-is-better", args.smaller,
                           "github-action: the metrics of which less is better");
  export_command->callback([&args] {
    const std::string text =
        export_results(read_results(args.a).require_cases(), args.format, args.smaller);
    if (args.output.empty()) {
      fmt::print("{}", text);
    } else {
      write_file(args.output, text);
    }
  });

  auto* summary = app.add_subcommand(
      "summary", "means, grades and flags of a run's cases as JSON: what figures and pages show");
  summary->add_option("run", args.a, kRunHelp)->required();
  summary->callback(
      [&args] { fmt::print("{}", to_line(summaries_json(read_journal(journal_of(args.a))))); });

  auto* diff = app.add_subcommand("diff-runs",
                                  "what changed between two runs' environments and configurations");
  diff->add_option("a", args.a, kRunHelp)->required();
  diff->add_option("b", args.b, kRunHelp)->required();
  diff->callback([&args] {
    print_provenance_changes(
        provenance_changes(read_results(args.a).provenance, read_results(args.b).provenance));
  });

  auto* rescore_command = app.add_subcommand(
      "rescore", "word error rates of stored hypotheses by another scorer, without decoding");
  rescore_command->add_option("run", args.a, "a run's folder, with its hypotheses")->required();
  rescore_command->add_option("--scorer", args.scorer, "basic_english or none")->required();
  rescore_command->add_option("--output", args.output,
                              "folder for a journal with the new word error rates");
  rescore_command->callback([&args] { rescore(args.a, args.scorer, args.output); });
}

}  // namespace rtfx
