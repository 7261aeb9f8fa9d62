#include "harness/cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/options.h"
#include "harness/cli/doctor.h"
#include "harness/cli/emissions.h"
#include "harness/cli/graph_command.h"
#include "harness/cli/inspect.h"
#include "harness/cli/list.h"
#include "harness/cli/prepare.h"
#include "harness/cli/result_commands.h"
#include "harness/cli/transcribe.h"
#include "harness/config/plan.h"
#include "harness/machine/device.h"
#include "harness/machine/sudden_end.h"
#include "harness/profile/profile.h"
#include "harness/report/python_script.h"
#include "harness/report/report.h"
#include "harness/report/reproduce.h"
#include "harness/run/provenance.h"
#include "harness/run/run.h"
#include "harness/stream/stream.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Options shared by `run`, `validate` and `reproduce`.
struct ConfigArguments {
  std::string file, device, output;
  std::vector<std::string> overrides;
  int64_t threads = -1;
  bool sync_debug = false;

  void add_to(CLI::App& app) {
    app.add_option("config", file, "JSON configuration")->required();
    add_overrides_to(app);
  }

  void add_overrides_to(CLI::App& app) {
    app.add_option("--set", overrides, "override: a.b.0.c=value, the value as JSON or plain text");
    app.add_option("--device", device, "auto, cpu, cuda or cuda:N");
    app.add_option("--threads", threads, "CPU threads; 0: all that the process may use");
    app.add_option("--output", output, "folder of the journal (default runs/<name>)");
    app.add_flag("--sync-debug", sync_debug,
                 "fail where a decoder waits for the device without declaring it");
  }

  Config load() const {
    std::vector<std::string> all = overrides;
    if (!device.empty()) all.push_back("device=" + json(device).dump());
    if (!output.empty()) all.push_back("output=" + json(output).dump());
    if (threads >= 0) all.push_back(fmt::format("threads={}", threads));
    if (sync_debug) all.emplace_back("sync_debug=true");
    prepare_files(read_document(file, all), file);
    return load_config(file, all);
  }
};

/// Checks everything that can be checked without running: files, decoders, options, kinds of
/// models.
void print_plan(const Config& config) {
  const Workspace workspace(config);
  const auto plan = make_plan(config, workspace.kinds());
  fmt::print("{}\n\n", config.resolved().dump(2));
  size_t cases = 0;
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      fmt::print("{}{}\n", decoder.case_name,
                 decoder.compared_to.empty() ? "" : "  against " + decoder.compared_to);
      ++cases;
    }
  }
  fmt::print("\n{} cases in {} groups, {} + {} rounds each; configuration {}\n", cases, plan.size(),
             config.protocol.warmup_rounds, config.protocol.measured_rounds,
             config.hash().substr(0, 12));
}

struct Program {
  CLI::App app{"rtfx: benchmark and compare speech-recognition decoders", "rtfx"};
  ConfigArguments run_arguments, stream_arguments, emissions_arguments, validate_arguments,
      profile_arguments, reproduce_arguments;
  ProfileOptions profile_options;
  bool no_cupti = false;
  std::string graph_trace = "node";
  TranscribeOptions transcription;
  GraphOptions graph;
  ReportOptions report_options;
  std::string table, table_journal, shard, inspected, listed = "decoders";
  ChildTask child;
  std::vector<std::string> ended_decoders;
  int64_t quick = 0;
  bool resume = false, force = false, list_json = false, inspect_json = false, latex = false;
  int code = kOk;
  std::unique_ptr<ResultCommands> result_commands;

  Program() {
    app.require_subcommand(1);
    app.set_version_flag("--version", version_text());
    add_run();
    add_stream();
    add_emissions();
    add_profile();
    add_reproduce();
    add_transcribe();
    add_graph();

    auto* list = app.add_subcommand("list", "decoders with their options, or configuration keys");
    list->add_option("what", listed, "decoders (default) or config")
        ->check(CLI::IsMember({"decoders", "config"}));
    list->add_flag("--json", list_json, "as JSON");
    list->callback([this] { print_list(listed, list_json); });

    app.add_subcommand("doctor", "what this machine can run, and why not")->callback([this] {
      code = doctor();
    });

    auto* command =
        app.add_subcommand("inspect", "what a model holds, and which decoders serve it");
    command->add_option("model", inspected, ".nemo checkpoint, or folder of a Hugging Face model")
        ->required();
    command->add_flag("--json", inspect_json, "as JSON");
    command->callback([this] { code = rtfx::inspect(inspected, inspect_json); });

    auto* validate =
        app.add_subcommand("validate", "check a configuration and print its plan; needs no GPU");
    validate_arguments.add_to(*validate);
    validate->callback([this] { print_plan(validate_arguments.load()); });

    add_report();
    result_commands = std::make_unique<ResultCommands>(app, code);
  }

  void add_report() {
    auto* command = app.add_subcommand("report", "table and HTML page of a run");
    command->add_option("run", report_options.run, "folder with journal.jsonl, or a journal")
        ->required();
    command->add_option("--baseline", report_options.baseline,
                        "an earlier run: what changed since, with intervals");
    command->add_option("--history", report_options.history,
                        "folder with the journals of earlier runs: RTFx and WER over revisions");
    command->add_option("--profile", report_options.profile,
                        "profile.jsonl of `rtfx profile` (default: beside the journal)");
    command->add_option("-o,--output", report_options.output,
                        "the page (default: report.html beside the journal)");
    command->add_flag("--table-only", report_options.table_only, "print the table, make no page");
    command->callback([this] { rtfx::report(report_options); });
  }

  void add_run() {
    auto* command = app.add_subcommand("run", "run a configuration: journal, table");
    run_arguments.add_to(*command);
    add_modes(*command);
    command->add_option("--shard", shard,
                        "i/n: this process takes the i-th of n parts of the utterances; auto: "
                        "as torchrun or Slurm say");
    // Hidden options: a run with `isolate` gives them to its child processes.
    command->add_option("--child", child.group)->group("");
    command->add_option("--ended", ended_decoders)->group("");
    command->callback([this] {
      for (const std::string& value : ended_decoders) child.add_ended(value);
      if (child.group >= 0) silence_notices();
      code = rtfx::run(run_arguments.load(), mode(),
                       shard.empty() ? Shard() : parse_shard(shard, process_environment()), child);
    });
  }

  void add_stream() {
    auto* command = app.add_subcommand(
        "stream", "streams in real time, served in batches: latency by their number");
    stream_arguments.add_to(*command);
    add_modes(*command);
    command->callback([this] { code = rtfx::stream(stream_arguments.load(), mode()); });
  }

  void add_emissions() {
    auto* command = app.add_subcommand(
        "emissions", "write CTC log-probabilities for other programs (emissions.npy)");
    emissions_arguments.add_to(*command);
    command->callback([this] {
      const Config config = emissions_arguments.load();
      code = write_emissions(config, config.output);
    });
  }

  void add_modes(CLI::App& command) {
    auto* resume_flag =
        command.add_flag("--resume", resume, "continue the journal in the output folder");
    command.add_flag("--force", force, "start anew; an earlier journal is kept as journal.jsonl.N")
        ->excludes(resume_flag);
  }

  Journal::Mode mode() const {
    return resume ? Journal::Mode::resume : force ? Journal::Mode::force : Journal::Mode::fresh;
  }

  void add_reproduce() {
    auto* command = app.add_subcommand(
        "reproduce", "run the configuration of a published table and set ours beside its figures");
    command->add_option("table", table, "its name; without one, the tables are listed");
    reproduce_arguments.add_overrides_to(*command);
    add_modes(*command);
    command->add_option("--quick", quick, "only the first N utterances of each set")
        ->check(CLI::PositiveNumber);
    command->add_option("--from", table_journal, "journal or folder of a run: only render it");
    command->add_flag("--latex", latex, "write the table as LaTeX too");
    command->callback([this] {
      if (table.empty()) return print_tables();
      code = reproduce();
    });
  }

  void add_profile() {
    auto* command = app.add_subcommand(
        "profile", "where the GPU waits: busy and idle share, kernels, timeline");
    profile_arguments.add_to(*command);
    command->add_option("--laps", profile_options.laps, "passes after the warm-up round (1)")
        ->check(CLI::PositiveNumber);
    command->add_option("--top", profile_options.top, "kernels listed of each region (5)")
        ->check(CLI::NonNegativeNumber);
    command
        ->add_option("--trace-limit", profile_options.trace_limit,
                     "events in trace.json (200000); 0: no such file")
        ->check(CLI::NonNegativeNumber);
    command
        ->add_option("--graph-trace", graph_trace,
                     "what is recorded of a CUDA graph: every kernel, or its run as a whole, which "
                     "slows it down less (node)")
        ->check(CLI::IsMember({"node", "graph"}));
    command->add_flag("--no-cupti", no_cupti,
                      "wall times and NVTX ranges only, as under another profiler");
    command->callback([this] {
      profile_options.cupti = !no_cupti;
      profile_options.graphs = graph_trace == "graph" ? GraphTrace::graph : GraphTrace::node;
      code = rtfx::profile(profile_arguments.load(), profile_options);
    });
  }

  int reproduce() {
    reproduce_arguments.file = table_file(table).string();
    if (!table_journal.empty()) {
      render_table(reproduce_arguments.file, table_journal, latex);
      return kOk;
    }
    Config config = reproduce_arguments.load();
    if (quick > 0) {
      for (size_t i = 0; i < config.datasets.size(); ++i)
        reproduce_arguments.overrides.push_back(fmt::format("datasets.{}.limit={}", i, quick));
      // A folder of its own, so that a quick run never continues a whole one. Its journal holds
      // the limit, which the table then states.
      if (reproduce_arguments.output.empty())
        reproduce_arguments.output = config.output.string() + "_quick";
      config = reproduce_arguments.load();
    }
    const int result = run_table(config, mode());
    if (result != kInterrupted) render_table(reproduce_arguments.file, config.output, latex);
    return result;
  }

  void add_graph() {
    auto* group = app.add_subcommand("graph", "decoding graphs for the decoders ctc_wfst*");
    group->require_subcommand(1);
    auto* build = group->add_subcommand(
        "build", "from a tokenizer, a lexicon and a language model over words");
    build->add_option("--lexicon", graph.lexicon, "lines of a word and its pieces; may be gzip")
        ->required();
    build->add_option("--lm", graph.lm, "ARPA language model over words; may be gzip")->required();
    build->add_option("--topology", graph.topology, "compact (default) or normal");
    build->add_flag("--drop-unspelled", graph.drop_unspelled,
                    "leave out words with pieces that the tokenizer lacks");
    build->callback([this] { code = build_graph_file(graph); });

    auto* imported = group->add_subcommand("import", "a TLG of OpenFst or Kaldi");
    imported->add_option("--openfst", graph.openfst, "the graph")->required();
    imported->add_option("--words", graph.words, "its output labels, lines of a word and its id")
        ->required();
    imported->callback([this] { code = import_graph_file(graph); });

    for (CLI::App* command : {build, imported}) {
      command
          ->add_option("--tokenizer", graph.tokenizer,
                       "checkpoint, SentencePiece .model, vocab.txt or tokenizer.json")
          ->required();
      command->add_option("--output", graph.output, "file to write")->required();
    }
  }

  void add_transcribe() {
    auto* command = app.add_subcommand("transcribe", "print the text of audio files");
    command
        ->add_option("--model", transcription.model,
                     ".nemo checkpoint, or folder of a Hugging Face model")
        ->required();
    command
        ->add_option("--att-context-size", transcription.att_context_size,
                     "attention context of a cache-aware encoder: LEFT,RIGHT frames (see `rtfx "
                     "inspect`)")
        ->delimiter(',')
        ->allow_extra_args(false);  // what follows are files
    command->add_option("--decoder", transcription.decoder, "see `rtfx list`");
    command->add_option("--options", transcription.decoder_options,
                        "decoder options as a JSON object");
    command->add_option("--device", transcription.device, "auto, cpu, cuda or cuda:N");
    command->add_option("--dtype", transcription.dtype, "fp32, bf16 or fp16");
    command->add_option("--batch-size", transcription.batch_size, "files decoded together")
        ->check(CLI::PositiveNumber);
    command
        ->add_option("--plugins", transcription.plugins,
                     "shared libraries with further decoders, with commas between them")
        ->delimiter(',')
        ->allow_extra_args(false);  // what follows are files
    command
        ->add_option("--threads", transcription.threads,
                     "CPU threads; 0: all that the process may use")
        ->check(CLI::Range(int64_t{0}, kMaxThreads));
    command->add_flag("--json", transcription.json,
                      "one JSON object per line: file, text, tokens, frames, ...");
    command
        ->add_option("files", transcription.files,
                     "audio files (wav, flac, ogg) or folders of them")
        ->required();
    command->callback([this] { code = transcribe(transcription); });
  }
};

}  // namespace

static int run_program(Program& program, int argc, char** argv) {
  try {
    program.app.parse(argc, argv);
    return program.code;
  } catch (const CLI::ParseError& e) {
    const int code = program.app.exit(e);
    return code == 0 ? kOk : kUsage;
  } catch (const UserError& e) {
    fmt::print(stderr, "rtfx: error: {}\n", e.what());
  } catch (...) {
    fmt::print(stderr, "rtfx: error: {}\n", describe_failure());
    return kFailed;
  }
  return kUsage;
}

int run_command_line(int argc, char** argv) {
  set_under_way(fmt::format("rtfx {}", argc > 1 ? argv[1] : ""));
  Program program;
  const int code = run_program(program, argc, argv);
  if (program.child.is_child()) {
    std::fflush(nullptr);
    end_child(code);
  }
  set_under_way({});
  return code;
}

}  // namespace rtfx
