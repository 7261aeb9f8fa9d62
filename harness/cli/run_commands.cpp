#include "harness/cli/run_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/cli/arguments.h"
#include "harness/cli/bench.h"
#include "harness/cli/graph_commands.h"
#include "harness/cli/listen.h"
#include "harness/cli/plan_printer.h"
#include "harness/config/document.h"
#include "harness/profile/nsight_session.h"
#include "harness/profile/profile.h"
#include "harness/profile/roofline.h"
#include "harness/run/run.h"
#include "harness/run/tune.h"
#include "harness/stream/stream.h"
#include "speech/streams/endpointing.h"
#include "speech/streams/speech_streams.h"

namespace rtfx {

namespace {

/// Prints where the results are, and which command shows them. `again` is the command that was
/// given.
void print_next(const Config& config, int code, const std::string& again) {
  const std::string next = code == kInterrupted
                               ? fmt::format("{} --resume", again)
                               : fmt::format("rtfx report {}", for_shell(config.output.string()));
  fmt::print("\njournal: {}\nnext: {}\n", printable((config.output / "journal.jsonl").string()),
             next);
}

void add_run(CLI::App& app, int& code) {
  struct Arguments {
    ConfigArguments config;
    JournalMode mode;
    std::string shard;
    ChildTask child;
    std::vector<std::string> ended_decoders;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command =
      app.add_subcommand("run",
                         "Measure every combination of model, dataset, decoder, batch size and "
                         "dtype in a configuration. Writes a journal and prints a table.");
  args->config.add_to(*command);
  args->mode.add_to(*command);
  command
      ->add_option("--shard", args->shard,
                   "Share of the utterances that this process decodes: i/n with i from 0 to n - 1. "
                   "auto: i and n come from torchrun or Slurm.")
      ->type_name("I/N");
  // Hidden options that a run with `isolate` gives to its child processes.
  command->add_option("--child", args->child.group)->group("");
  command->add_option("--ended", args->ended_decoders)->group("");
  command->callback([args, &code] {
    for (const std::string& value : args->ended_decoders) args->child.add_ended(value);
    const Shard shard =
        args->shard.empty() ? Shard() : parse_shard(args->shard, process_environment());
    const Config config = args->config.load();
    if (!args->child.is_child() && shard.index == 0) note_tuned_on_test_sets(config);
    code = rtfx::run(config, args->mode.mode(), shard, args->child);
    if (args->child.is_child() || shard.index != 0) return;
    const std::string shards = args->shard.empty() ? "" : " --shard " + for_shell(args->shard);
    print_next(config, code, "rtfx run" + args->config.command_line() + shards);
  });
}

void add_bench(CLI::App& app, int& code) {
  const auto args = std::make_shared<BenchOptions>();
  auto* command = app.add_subcommand(
      "bench",
      "Compare decoders without a configuration file. Every combination of the given models, data, "
      "decoders, batch sizes and dtypes is measured.\nExample: rtfx bench --model m.nemo --data "
      "recordings/ --decoder frame_looping,label_looping --batch 1,32");
  command
      ->add_option(
          "--model", args->models,
          "Models: .nemo files, folders of Hugging Face models, or names of downloaded ones.")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--data", args->data,
                   "Manifests (.json, .jsonl), LibriSpeech folders, folders of audio files, or "
                   "audio files. Single audio files together are one dataset.")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--decoder", args->decoders,
                   "Decoders (see `rtfx list`), separated by commas, with options in brackets. "
                   "label_looping[window=1,8] measures both windows. "
                   "python[file=mine.py,class=Mine] is a decoder of your own. Default: "
                   "frame_looping and label_looping for transducers, ctc_greedy for CTC heads.")
      ->type_name("DECODER");
  command->add_option("--plugins", args->plugins, kPluginsHelp)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FILE,...");
  command
      ->add_option("--batch", args->batches,
                   "Numbers of utterances in a batch, separated by commas.")
      ->delimiter(',')
      ->check(at_least(1));
  command->add_option("--dtype", args->dtypes, kDtypeHelp)->delimiter(',')->type_name("DTYPE");
  command
      ->add_option("--rounds", args->rounds,
                   "Number of measured rounds. A round is one pass over the dataset.")
      ->check(at_least(1));
  command
      ->add_option("--warmup", args->warmup, "Number of warm-up rounds before the measured ones.")
      ->check(at_least(0));
  command
      ->add_option("--limit", args->limit,
                   "Use only the first N utterances of each dataset. 0: all.")
      ->check(at_least(0));
  command->add_option("--device", args->device, kDeviceHelp)->type_name("DEVICE");
  command->add_option("--threads", args->threads, kThreadsHelp)->check(at_least(0));
  command
      ->add_option("--output", args->output,
                   "Folder for the journal. Without --resume, an earlier journal there is kept as "
                   "journal.jsonl.N.")
      ->type_name("FOLDER");
  command->add_flag("--resume", args->resume, "Continue the journal in the output folder.");
  command->add_flag("--print-config", args->print_config,
                    "Print the configuration that these arguments stand for, without running it.");
  command->callback([args, &code] {
    if (args->print_config) {
      fmt::print("{}\n", to_text(bench_document(*args), 2));
      return;
    }
    const Config config = bench_config(*args);
    code = rtfx::run(config, args->resume ? Journal::Mode::resume : Journal::Mode::force, {}, {},
                     "what was recorded is kept; the same command without that decoder and with "
                     "--resume measures the other cases");
    print_next(config, code, "the same command with");
  });
}

void add_tune(CLI::App& app, int& code) {
  struct Arguments {
    ConfigArguments config;
    JournalMode mode;
    std::string target;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "tune",
      "Choose options of decoders, such as language model weights, on a development set (key "
      "\"tune\"). Prints the WER of each value and writes a configuration.");
  args->config.add_to(*command);
  args->mode.add_to(*command);
  command
      ->add_option("--write", args->target,
                   "File for the configuration with the chosen values, in the folder of the given "
                   "one (default: NAME.tuned.json for NAME.json).")
      ->type_name("FILE");
  command->callback([args, &code] {
    const std::filesystem::path file = args->config.file;
    const std::filesystem::path target =
        args->target.empty() ? file.parent_path() / (file.stem().string() + ".tuned.json")
                             : std::filesystem::path(args->target);
    const Document document = args->config.read();
    const Config config = parse_config(document);  // loads plug-ins, whose options may be paths
    // The device, the threads and the folder of this search are not those of later runs.
    const std::vector<std::string>& kept = args->config.overrides;
    const Document written = read_document(file, kept);
    code = rtfx::tune(config, with_relative_paths(config_keys().info(), written), target,
                      args->mode.mode());
    if (code != kOk || kept.empty()) return;
    std::vector<std::string> keys;
    for (const std::string& text : kept) keys.push_back(printable(text.substr(0, text.find('='))));
    print_message("rtfx: notice: {} keeps what --set gives to {}\n", printable(target.string()),
                  fmt::join(keys, ", "));
  });
}

void add_validate(CLI::App& app) {
  struct Arguments {
    ConfigArguments config;
    bool as_json = false;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("validate",
                                     "Check a configuration without running it. Prints its cases "
                                     "and an estimate of the time. Makes missing files that its "
                                     "key `prepare` lists. Needs no GPU.");
  args->config.add_to(*command);
  command->add_flag(
      "--json", args->as_json,
      "Print the configuration with all defaults, its cases and the estimate as JSON.");
  command->callback([args] { print_plan(args->config.load(), args->as_json); });
}

/// Options of `rtfx stream` that are errors with --model.
constexpr std::array kOnlyWithConfig = {"--set", "--output", "--sync-debug", "--resume", "--force"};

/// Throws UserError if options were given that are only for a configuration, and names them.
void require_live_options(const CLI::App& command) {
  std::vector<std::string> given;
  for (const char* name : kOnlyWithConfig)
    if (command.count(name) > 0) given.emplace_back(name);
  if (given.empty()) return;
  throw UserError("rtfx stream --model", fmt::format("does not take {}", fmt::join(given, ", ")),
                  "leave that out, or give a configuration in place of --model");
}

struct StreamArguments {
  ConfigArguments config;
  JournalMode mode;
  ListenOptions live;
  std::vector<double> buffer;
  std::string trial;
};

/// Adds --model, and the options of live text, which need it.
void add_live_options(CLI::App& command, StreamArguments& args) {
  ListenOptions& live = args.live;
  auto* model = command
                    .add_option("--model", live.model,
                                "Model for live text: a .nemo file, a folder of a Hugging Face "
                                "model, or the name of a downloaded one.")
                    ->type_name("FILE");
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->needs(model);
  };
  command
      .add_flag("--microphone", live.microphone,
                "Transcribe the microphone, which ALSA's arecord records.")
      ->needs(model);
  add("--raw", live.raw_rate,
      "Sample rate in Hz of standard input that consists of 16-bit samples without a header. "
      "Without "
      "this option, standard input has a header, such as that of WAV.")
      ->check(between(1000, 768000))
      ->type_name("HZ");
  add("--language", live.language,
      "Language of the speech, for a prompt-conditioned model (`rtfx inspect` lists the "
      "languages).");
  add("--decoder", live.decoder, kDecoderHelp);
  add("--options", live.decoder_options, kDecoderOptionsHelp);
  add("--dtype", live.dtype, kDtypeHelp);
  add("--att-context-size", live.att_context_size,
      "Attention context of a cache-aware encoder, in encoder frames: LEFT,RIGHT, or "
      "LEFT,CHUNK,RIGHT (`rtfx inspect` lists those of the model). Less right context lowers the "
      "latency.")
      ->delimiter(',')
      ->allow_extra_args(false);
  add("--buffer", args.buffer,
      "Encode a buffer of audio for each chunk instead of caching states: CHUNK,LEFT,RIGHT in "
      "seconds. Text comes after chunk and right context. Default for encoders that cannot cache: "
      "2,10,2.")
      ->delimiter(',')
      ->allow_extra_args(false);
  add("--pause", live.pause, "Seconds without a word that end an utterance. 0: no pause ends one.")
      ->check(between(0.0, kMostPauseSeconds));
  add("--end-token", live.end_tokens,
      "Token that ends an utterance, as the vocabulary spells it. May be repeated. none: no token "
      "ends one (default: <EOU> and <EOB>, where the vocabulary has them).")
      ->allow_extra_args(false);
  auto* vad = add("--vad", live.vad,
                  "Voice activity detector that ends utterances: silero_vad.jit of the Python "
                  "package silero-vad, or a TorchScript module with the same interface.")
                  ->type_name("FILE");
  add("--vad-silence", live.vad_silence,
      "Seconds without speech, according to the detector of --vad, that end an utterance.")
      ->check(between(kLeastSilenceSeconds, kMostPauseSeconds))
      ->needs(vad);
  add("--decode-again", live.decode_again,
      "Seconds without a token, with 1.5 s of speech in them, after which encoder and search start "
      "again from before that speech. 0: never.")
      ->check(between(0.0, kMostWordlessSeconds));
  command.add_flag("--json", live.json, "Print a line of JSON for each change of the text.")
      ->needs(model);
}

/// Prints live text by --model and the options that need it. Returns the exit code.
int run_live(const StreamArguments& args, const CLI::App& command) {
  require_live_options(command);
  ListenOptions options = args.live;
  options.source = args.config.file;
  if (options.source.empty() != options.microphone)
    throw UserError("rtfx stream", "wants audio from one place",
                    "give - (standard input), a file, or --microphone");
  if (options.raw_rate > 0 && options.source != "-")
    throw UserError("--raw", "is for standard input", "give - for the audio");
  if (!args.buffer.empty() && args.buffer.size() != 3)
    throw UserError("--buffer", fmt::format("has {} numbers", args.buffer.size()),
                    "give CHUNK,LEFT,RIGHT in seconds, such as 2,10,2");
  if (!args.buffer.empty()) options.buffer = {args.buffer[0], args.buffer[1], args.buffer[2]};
  if (!args.config.device.empty()) options.device = args.config.device;
  options.threads = args.config.threads.value_or(0);
  if (options.threads > kMaxThreads)
    throw UserError("--threads", fmt::format("is {}", options.threads),
                    fmt::format("give 0 to {}", kMaxThreads));
  return listen(options);
}

void add_stream(CLI::App& app, int& code) {
  const auto args = std::make_shared<StreamArguments>();
  auto* command = app.add_subcommand(
      "stream",
      fmt::format(
          "With a configuration: simulate live streams in real time, and measure latency for each "
          "number of streams. With --model: print live text of a microphone, a file or standard "
          "input. Only a configuration takes {}. The options from --microphone on need --model. "
          "With --model, the defaults are --device auto and --threads 0.",
          fmt::join(kOnlyWithConfig, ", ")));
  command
      ->add_option("config", args->config.file,
                   "Configuration in JSON. With --model: the audio, which is a file, or - for "
                   "standard input.")
      ->type_name("FILE");
  args->config.add_overrides_to(*command);
  args->mode.add_to(*command);
  add_live_options(*command, *args);
  // A hidden option that a run with `stream.rule` gives to its child processes.
  command->add_option("--child", args->trial)->group("");
  command->callback([args, command, &code] {
    if (!args->trial.empty()) {
      code = rtfx::stream(args->config.load(), Journal::Mode::child, StreamTrial::of(args->trial));
      return;
    }
    if (args->live.model.empty()) {
      if (args->config.file.empty())
        throw UserError("rtfx stream", "wants a configuration, or --model and audio",
                        "for example: arecord -f S16_LE -r 16000 | rtfx stream --model M.nemo -");
      code = rtfx::stream(args->config.load(), args->mode.mode());
      return;
    }
    code = run_live(*args, *command);
  });
}

/// Adds the options that say how much of a profile is written.
void add_listing(CLI::App& command, int64_t& top, int64_t& trace_limit) {
  command
      .add_option("--top", top,
                  "Number of kernels listed for each region. With --roofline: kernels or operators "
                  "for each case (default 10).")
      ->check(at_least(0));
  command
      .add_option("--trace-limit", trace_limit,
                  "Largest number of events in trace.json. 0: the file is not written.")
      ->check(at_least(0));
}

/// Throws UserError that names the arguments of `rtfx profile` itself, before `import`.
void require_nothing_before_import(const CLI::App& profile) {
  std::vector<std::string> given;
  for (const CLI::Option* option : profile.get_options())
    if (option->count() > 0) given.push_back(option->get_name());
  if (given.empty()) return;
  throw UserError("rtfx profile import",
                  fmt::format("does not take {} before its name", fmt::join(given, ", ")),
                  "write its own options behind `import` (rtfx profile import --help)");
}

void add_import(CLI::App& profile, int& code) {
  struct Arguments {
    std::vector<std::filesystem::path> files;
    NsightImport options;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = profile.add_subcommand(
      "import",
      "Import sessions of `rtfx profile` that Nsight Systems recorded, also on other machines. "
      "Prints a table, and writes profile.jsonl and trace.json.");
  command
      ->add_option(
          "files", args->files,
          "SQLite files that `nsys export --type sqlite REPORT.nsys-rep` makes of sessions.")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--output", args->options.output,
                   "Folder for profile.jsonl and trace.json (default: runs/ and the name of the "
                   "first file).")
      ->type_name("FOLDER");
  add_listing(*command, args->options.top, args->options.trace_limit);
  command->callback([args, &profile, &code] {
    require_nothing_before_import(profile);
    NsightImport& options = args->options;
    if (options.output.empty()) options.output = "runs" / args->files.front().stem();
    code = import_nsight_sessions(args->files, options);
  });
}

constexpr double kMostLaps = 1e6;  // a record holds the time of each lap

void add_profile(CLI::App& app, int& code) {
  struct Arguments {
    ConfigArguments config;
    ProfileOptions options;
    RooflineOptions roofline;
    bool no_cupti = false, nsys = false, with_roofline = false;
    std::string graph_trace = "node";
  };
  const auto args = std::make_shared<Arguments>();
  ProfileOptions& options = args->options;
  auto* command =
      app.add_subcommand("profile",
                         "Measure how long each region of each case takes, for which share of that "
                         "time the GPU is busy, and with which kernels. Writes a timeline.");
  args->config.add_to(*command);
  // Hidden options that the program gives to its own child processes.
  command->add_flag("--undisturbed", options.undisturbed)->group("");
  command->add_flag("--recorded", options.recorded)->group("");
  command->add_flag("--whole-name", options.whole_name)->group("");
  command
      ->add_option(
          "--laps", options.laps,
          "Number of laps, which are passes over the dataset after a warm-up round. Where GPU "
          "figures are collected, as many laps are timed before without the collector.")
      ->check(between(1, kMostLaps));
  add_listing(*command, options.top, options.trace_limit);
  command
      ->add_option("--graph-trace", args->graph_trace,
                   "How CUDA graphs are recorded. node: every kernel. graph: each run of a graph "
                   "as a whole, which slows it down less but hides its kernels.")
      ->check(CLI::IsMember({"node", "graph"}));
  command->add_flag("--no-cupti", args->no_cupti,
                    "Record only wall times and NVTX ranges, for example under another profiler.");
  command->add_flag("--nsys", args->nsys,
                    "Record with Nsight Systems, which must be installed, and keep its reports.");
  command->add_option("--only", options.only, "Profile only cases whose name contains this text.")
      ->type_name("TEXT");
  auto* roofline = command->add_flag(
      "--roofline", args->with_roofline,
      "Measure bytes, FLOP and their share of the device's limits. Nsight Compute (ncu) counts "
      "them on a GPU. Without it, they are computed from tensor shapes.");
  command
      ->add_option("--region", args->roofline.region,
                   "With --roofline: region that is measured, such as encoder or decode.")
      ->needs(roofline)
      ->capture_default_str();
  command
      ->add_option("--launches", args->roofline.launches,
                   "With --roofline: largest number of kernels that ncu counts in each case.")
      ->needs(roofline)
      ->check(at_least(1))
      ->capture_default_str();
  for (const char* other : {"--trace-limit", "--graph-trace", "--no-cupti", "--nsys"})
    command->get_option(other)->excludes(roofline);
  add_import(*command, code);
  command->get_option("config")->required(false);  // `import` has no configuration
  command->callback([args, command, &code] {
    if (!command->get_subcommands().empty()) return;
    if (args->config.file.empty()) throw CLI::RequiredError("config");
    args->options.cupti = !args->no_cupti;
    args->options.graphs = args->graph_trace == "graph" ? GraphTrace::graph : GraphTrace::node;
    const Config config = args->config.load();
    args->roofline.laps = args->options.laps;
    args->roofline.only = args->options.only;
    if (command->count("--top") > 0) args->roofline.top = args->options.top;
    code = args->with_roofline ? rtfx::roofline(config, args->roofline)
           : args->nsys        ? record_nsys_session(config, args->options)
                               : rtfx::profile(config, args->options);
  });
}

}  // namespace

void add_run_commands(CLI::App& app, int& code) {
  add_run(app, code);
  add_bench(app, code);
  add_tune(app, code);
  add_validate(app);
  add_stream(app, code);
  add_emissions(app, code);
  add_lattice(app, code);
  add_profile(app, code);
}

}  // namespace rtfx
