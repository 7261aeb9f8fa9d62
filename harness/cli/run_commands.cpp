#include "harness/cli/run_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/json.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/cli/arguments.h"
#include "harness/cli/bench.h"
#include "harness/cli/graph_commands.h"
#include "harness/cli/listen.h"
#include "harness/config/document.h"
#include "harness/profile/nsight_session.h"
#include "harness/profile/profile.h"
#include "harness/profile/roofline.h"
#include "harness/run/estimate.h"
#include "harness/run/run.h"
#include "harness/run/tune.h"
#include "harness/stream/stream.h"
#include "speech/streams/speech_streams.h"

namespace rtfx {

namespace {

/// Where the results are, and what to do with them. `again`: the command that was given.
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
  auto* command = app.add_subcommand("run", "run a configuration: journal, table");
  args->config.add_to(*command);
  args->mode.add_to(*command);
  command
      ->add_option("--shard", args->shard,
                   "i/n: this process takes the i-th of n parts of the utterances; auto: as "
                   "torchrun or Slurm say")
      ->type_name("I/N");
  // Hidden options: a run with `isolate` gives them to its child processes.
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
  auto* command =
      app.add_subcommand("bench",
                         "compare decoders without a configuration file; lists multiply\n"
                         "For example rtfx bench --model m.nemo --data recordings/ --decoder "
                         "frame_looping,label_looping --batch 1,32");
  command->add_option("--model", args->models, "checkpoints: .nemo, or folders of Hugging Face")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--data", args->data,
                   "manifests (.json, .jsonl), LibriSpeech folders, audio files or folders of them")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--decoder", args->decoders,
          "names (`rtfx list`), with options in brackets: label_looping[window=1,8] is "
          "two, python[file=mine.py,class=Mine] is your own (default: the baseline and the "
          "fastest of the model's kind)")
      ->type_name("DECODER");
  command
      ->add_option("--plugins", args->plugins,
                   "shared libraries with further decoders, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FILE,...");
  command->add_option("--batch", args->batches, "utterances in a batch")
      ->delimiter(',')
      ->check(at_least(1));
  command->add_option("--dtype", args->dtypes, kDtypeHelp)->delimiter(',')->type_name("DTYPE");
  command->add_option("--rounds", args->rounds, "measured passes")->check(at_least(1));
  command->add_option("--warmup", args->warmup, "passes before them")->check(at_least(0));
  command->add_option("--limit", args->limit, "only the first N utterances of each set; 0: all")
      ->check(at_least(0));
  command->add_option("--device", args->device, "auto, cpu, cuda or cuda:N")->type_name("DEVICE");
  command->add_option("--threads", args->threads, "CPU threads; 0: all that the process may use")
      ->check(at_least(0));
  command
      ->add_option("--output", args->output,
                   "folder of the journal; an earlier one there is kept as journal.jsonl.N")
      ->type_name("FOLDER");
  command->add_flag("--resume", args->resume, "continue the journal in the output folder");
  command->add_flag("--print-config", args->print_config,
                    "print the configuration that this stands for, and run nothing");
  command->callback([args, &code] {
    if (args->print_config) {
      fmt::print("{}\n", to_text(bench_document(*args), 2));
      return;
    }
    const Config config = bench_config(*args);
    code = rtfx::run(config, args->resume ? Journal::Mode::resume : Journal::Mode::force);
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
      "tune", "choose weights on a development set (key \"tune\"): curve, configuration");
  args->config.add_to(*command);
  args->mode.add_to(*command);
  command
      ->add_option(
          "--write", args->target,
          "the configuration with the chosen weights (default: CONFIG.tuned.json beside it)")
      ->type_name("FILE");
  command->callback([args, &code] {
    const std::filesystem::path file = args->config.file;
    const std::filesystem::path target =
        args->target.empty() ? file.parent_path() / (file.stem().string() + ".tuned.json")
                             : std::filesystem::path(args->target);
    const Document document = args->config.read();
    const Config config = parse_config(document);  // loads plug-ins, whose options may be paths
    code = rtfx::tune(config, with_relative_paths(config_keys().info(), document), target,
                      args->mode.mode());
  });
}

void add_validate(CLI::App& app) {
  struct Arguments {
    ConfigArguments config;
    bool as_json = false;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "validate",
      "check a configuration, print its plan and about how long it takes; needs no GPU");
  args->config.add_to(*command);
  command->add_flag("--json", args->as_json, "the configuration with all defaults, and its plan");
  command->callback([args] { print_plan(args->config.load(), args->as_json); });
}

/// Throws UserError that names the options given which only a configuration has a use for.
void require_live_options(const CLI::App& command) {
  std::vector<std::string> given;
  for (const char* name : {"--set", "--output", "--sync-debug", "--resume", "--force"})
    if (command.count(name) > 0) given.emplace_back(name);
  if (given.empty()) return;
  throw UserError("rtfx stream --model", fmt::format("does not take {}", fmt::join(given, ", ")),
                  "leave that out, or give a configuration in place of --model");
}

void add_stream(CLI::App& app, int& code) {
  struct Arguments {
    ConfigArguments config;
    JournalMode mode;
    ListenOptions live;
    std::vector<double> buffer;
    std::string trial;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "stream",
      "streams in real time, served in batches: latency by their number; or, with "
      "--model, live text of a microphone or of standard input");
  command
      ->add_option("config", args->config.file,
                   "JSON configuration; with --model the audio: - (standard input) or a file")
      ->type_name("FILE");
  args->config.add_overrides_to(*command);
  args->mode.add_to(*command);
  ListenOptions& live = args->live;
  auto* model =
      command->add_option("--model", live.model, "live text by this checkpoint")->type_name("FILE");
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->needs(model);
  };
  command->add_flag("--microphone", live.microphone, "what ALSA's arecord records")->needs(model);
  add("--raw", live.raw_rate, "standard input is 16 bit samples of so many Hz, without a header")
      ->check(between(1000, 768000))
      ->type_name("HZ");
  add("--language", live.language, "for a prompt-conditioned model (see `rtfx inspect`)");
  add("--decoder", live.decoder, "see `rtfx list`");
  add("--options", live.decoder_options, "of the decoder, a JSON object");
  add("--dtype", live.dtype, kDtypeHelp);
  add("--att-context-size", live.att_context_size,
      "of a cache-aware encoder: LEFT,RIGHT frames (see `rtfx inspect`)")
      ->delimiter(',')
      ->allow_extra_args(false);
  add("--buffer", args->buffer,
      "of other encoders: seconds of a chunk, before it and behind it (default: 2,10,2)")
      ->delimiter(',')
      ->allow_extra_args(false);
  add("--pause", live.pause, "seconds without a word that end an utterance; 0: no pause does")
      ->check(between(0.0, 3600.0));
  add("--end-token", live.end_tokens,
      "token that ends an utterance; may be repeated; none: no token does (default: <EOU> and "
      "<EOB>, where the model has them)")
      ->allow_extra_args(false);
  auto* vad = add("--vad", live.vad,
                  "voice activity detector that ends utterances: silero_vad.jit of the Python "
                  "package silero-vad, or a TorchScript module that is called likewise")
                  ->type_name("FILE");
  add("--vad-silence", live.vad_silence,
      "seconds without speech, by this detector, that end an utterance")
      ->check(between(0.1, 3600.0))
      ->needs(vad);
  add("--decode-again", live.decode_again,
      "seconds of speech without a word after which the stream starts over; 0: never")
      ->check(between(0.0, kMostWordlessSeconds));
  command->add_flag("--json", live.json, "a JSON line for each change")->needs(model);
  // Hidden: a run with `stream.rule` gives it to its child processes.
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
    require_live_options(*command);
    ListenOptions options = args->live;
    options.source = args->config.file;
    if (options.source.empty() != options.microphone)
      throw UserError("rtfx stream", "wants audio from one place",
                      "give - (standard input), a file, or --microphone");
    if (options.raw_rate > 0 && options.source != "-")
      throw UserError("--raw", "is for standard input", "give - for the audio");
    if (!args->buffer.empty() && args->buffer.size() != 3)
      throw UserError("--buffer", fmt::format("has {} numbers", args->buffer.size()),
                      "give three: seconds of a chunk, before it and behind it");
    if (!args->buffer.empty()) options.buffer = {args->buffer[0], args->buffer[1], args->buffer[2]};
    if (!args->config.device.empty()) options.device = args->config.device;
    options.threads = args->config.threads.value_or(0);
    if (options.threads > kMaxThreads)
      throw UserError("--threads", fmt::format("is {}", options.threads),
                      fmt::format("give 0 to {}", kMaxThreads));
    code = listen(options);
  });
}

void add_emissions(CLI::App& app, int& code) {
  const auto args = std::make_shared<ConfigArguments>();
  auto* command = app.add_subcommand("emissions",
                                     "write CTC log-probabilities for other programs "
                                     "(emissions.npy); keep earlier files as NAME.N");
  args->add_to(*command);
  command->callback([args, &code] {
    const Config config = args->load();
    code = write_emissions(config, config.output);
  });
}

void add_lattice(CLI::App& app, int& code) {
  struct Arguments {
    ConfigArguments config;
    LatticeOptions options;
  };
  const auto args = std::make_shared<Arguments>();
  auto* command = app.add_subcommand(
      "lattice", "write lattices of words for Kaldi and OpenFst; words of least expected errors");
  args->config.add_to(*command);
  command->add_flag("--mbr", args->options.mbr,
                    "print the words with the fewest expected errors, as CTM with confidences");
  command->add_flag("--posteriors", args->options.posteriors,
                    "write each frame's words and their probabilities to utterances.jsonl");
  command
      ->add_option("--acoustic-scale", args->options.acoustic_scale,
                   "factor of acoustic costs for probabilities and OpenFst (default: the search's)")
      ->check(between(0.0, 1e3));
  command
      ->add_option("--graph-scale", args->options.graph_scale,
                   "the same of the graph's costs; both smaller: alternatives are more probable")
      ->check(between(0.0, 1e3));
  command->callback([args, &code] { code = write_lattices(args->config.load(), args->options); });
}

/// Throws UserError that names what was given to `rtfx profile` itself, before `import`.
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
      "import", "figures of sessions of `rtfx profile` that Nsight Systems recorded elsewhere");
  command
      ->add_option("files", args->files,
                   "SQLite exports of sessions: nsys export --type sqlite REPORT.nsys-rep")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--output", args->options.output,
          "folder of profile.jsonl and trace.json (default: runs/<name of the first file>)")
      ->type_name("FOLDER");
  command->add_option("--top", args->options.top, "kernels listed of each region")
      ->check(at_least(0));
  command
      ->add_option("--trace-limit", args->options.trace_limit,
                   "events in trace.json; 0: no such file")
      ->check(at_least(0));
  command->callback([args, &profile, &code] {
    require_nothing_before_import(profile);
    NsightImport& options = args->options;
    if (options.output.empty()) options.output = "runs" / args->files.front().stem();
    code = import_nsight_sessions(args->files, options);
  });
}

constexpr double kMostLaps = 1e6;  // whose times a record holds, one by one

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
      app.add_subcommand("profile", "where the GPU waits: busy and idle share, kernels, timeline");
  args->config.add_to(*command);
  // Hidden: the program gives them to its own child processes.
  command->add_flag("--undisturbed", options.undisturbed)->group("");
  command->add_flag("--recorded", options.recorded)->group("");
  command->add_flag("--whole-name", options.whole_name)->group("");
  command
      ->add_option("--laps", options.laps,
                   "passes after the warm-up round, and as many before without a collector")
      ->check(between(1, kMostLaps));
  command->add_option("--top", options.top, "kernels listed of each region")->check(at_least(0));
  command->add_option("--trace-limit", options.trace_limit, "events in trace.json; 0: no such file")
      ->check(at_least(0));
  command
      ->add_option("--graph-trace", args->graph_trace,
                   "what is recorded of a CUDA graph: every kernel, or its run as a whole, which "
                   "slows it down less")
      ->check(CLI::IsMember({"node", "graph"}));
  command->add_flag("--no-cupti", args->no_cupti,
                    "wall times and NVTX ranges only, as under another profiler");
  command->add_flag("--nsys", args->nsys,
                    "collect with Nsight Systems, which must be installed, and keep its reports");
  command->add_option("--only", options.only, "only cases with this in their name")
      ->type_name("TEXT");
  auto* roofline = command->add_flag(
      "--roofline", args->with_roofline,
      "bytes, FLOP and share of the device's limits: by counters through ncu, else reckoned");
  command
      ->add_option("--region", args->roofline.region,
                   "with --roofline: the region that is looked at")
      ->needs(roofline)
      ->capture_default_str();
  command
      ->add_option("--launches", args->roofline.launches,
                   "with --roofline: kernels of a case that are counted, at most")
      ->needs(roofline)
      ->check(at_least(1))
      ->capture_default_str();
  for (const char* other : {"--trace-limit", "--graph-trace", "--no-cupti", "--nsys"})
    command->get_option(other)->excludes(roofline);
  add_import(*command, code);
  command->get_option("config")->required(false);  // `import` goes without
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

namespace {

using nlohmann::json;

json plan_json(const Config& config, const std::vector<CaseGroup>& plan, const Estimate& time) {
  json cases = json::array();
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const std::string& against = decoder.compared_to;
      cases.push_back(
          {{"case", decoder.case_name}, {"against", against.empty() ? json() : json(against)}});
    }
  }
  return {{"config", config.resolved()},
          {"cases", cases},
          {"estimate",
           {{"audio_seconds", time.audio_seconds},
            {"passes", time.passes},
            {"low_seconds", time.low},
            {"high_seconds", time.high},
            {"basis", time.basis}}}};
}

/// Prints a fact of the plan behind its name, which is empty where it goes on.
void print_fact(const char* name, const std::string& fact) {
  constexpr size_t kIndent = 9;
  print_wrapped(fmt::format("{:<{}}{}", name, kIndent, printable(fact)), kIndent);
}

void print_model(const ModelSource& source, const Checkpoint& checkpoint) {
  print_fact("model",
             fmt::format("{}: {}, {:.4g} million parameters, {}", source.id,
                         fmt::join(checkpoint.config.kinds(), " + "),
                         static_cast<double>(checkpoint.parameters) / 1e6, source.path.string()));
  if (!checkpoint.stand_in.empty()) print_fact("", "stand-in model: " + checkpoint.stand_in);
  for (const std::string& notice : checkpoint.notices) print_fact("", notice);
}

void print_dataset(const DatasetSource& source, const Dataset& dataset) {
  double seconds = 0;
  for (const Utterance& utterance : dataset.utterances) seconds += utterance.seconds;
  const std::string where = !source.manifest.empty()      ? source.manifest
                            : !source.librispeech.empty() ? source.librispeech
                                                          : source.files.front();
  const auto count = static_cast<int64_t>(dataset.utterances.size());
  print_fact("data", fmt::format("{}: {}, {} of audio, {}", dataset.id, counted(count, "utterance"),
                                 duration_text(seconds), where));
  if (!dataset.stand_in.empty()) print_fact("", "stand-in data: " + dataset.stand_in);
}

}  // namespace

void print_plan(const Config& config, bool as_json) {
  require_fitting_device(config);
  const Workspace workspace(config);
  const auto plan = make_plan(config, workspace.kinds());
  const Estimate time = estimate(workspace, plan);
  if (as_json) {
    fmt::print("{}\n", to_text(plan_json(config, plan, time), 2));
    return;
  }
  for (size_t i = 0; i < config.models.size(); ++i)
    print_model(config.models[i], workspace.checkpoints()[i]);
  for (size_t i = 0; i < config.datasets.size(); ++i)
    print_dataset(config.datasets[i], workspace.datasets()[i].dataset);
  int64_t cases = 0;
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const std::string& id = config.decoders[decoder.spec].id;
      const std::string against = decoder.compared_to.empty() ? ""
                                  : decoder.compared_to == id ? "  the baseline"
                                                              : "  against " + decoder.compared_to;
      print_fact(++cases == 1 ? "cases" : "", decoder.case_name + against);
    }
  }
  for (const CaseGroup& group : plan) {
    if (const std::string notice = batch_notice(workspace, group); !notice.empty())
      print_fact("notice", notice);
  }
  print_fact(
      "rounds",
      fmt::format("{} in {}, {} + {} rounds each: {} of a dataset, {} of audio",
                  counted(cases, "case"), counted(static_cast<int64_t>(plan.size()), "group"),
                  config.protocol.warmup_rounds, config.protocol.measured_rounds,
                  time.passes == 1 ? "1 pass" : fmt::format("{} passes", time.passes),
                  duration_text(time.audio_seconds)));
  print_fact("time", fmt::format("{}: {}", time_text(time), time.basis));
  print_fact("output", fmt::format("{}; configuration {}", config.output.string(),
                                   config.hash().substr(0, 12)));
}

}  // namespace rtfx
