#include <algorithm>
#include <set>

#include "datasets/audio.h"
#include "harness/config/config.h"
#include "harness/scoring/exactness.h"
#include "harness/scoring/normalize.h"
#include "models/dtypes.h"

namespace rtfx {
namespace {

constexpr const char* kKey = "key";

/// Reads a label, or {"encoder": ..., "decoder": ...}, and returns the label.
std::string read_dtypes(const JsonView& v) {
  if (!v.value().is_object()) return parse_dtypes(v.text(), v.where()).label();
  v.check_keys({"encoder", "decoder"}, kKey);
  return parse_dtypes(v.at("encoder").text() + "+" + v.at("decoder").text(), v.where()).label();
}

std::string read_string(const JsonView& v) { return v.text(); }

/// Declares the value, or each text in it, to be a path relative to the configuration.
template <class Options>
OptionField<Options> as_path(OptionField<Options> field) {
  field.is_file = true;
  return field;
}

template <class Options, class Text>
OptionField<Options> path_option(std::string name, Text Options::*member, std::string help) {
  return as_path(text_option(std::move(name), member, std::move(help), "a path"));
}

template <class Options>
OptionField<Options> paths_option(std::string name, std::vector<std::string> Options::*member,
                                  std::string help) {
  return as_path(list_option(std::move(name), member, std::move(help), "a path", read_string));
}

const OptionTable<ModelSource>& model_keys() {
  static const OptionTable<ModelSource> keys{
      {text_option("id", &ModelSource::id, "Short name, which appears in the names of cases.")
           .by_default("the checkpoint's name"),
       path_option("path", &ModelSource::path,
                   "Checkpoint: a .nemo file, a folder, or the name of a downloaded model of "
                   "huggingface.co.")
           .required(),
       list_option("att_context_size", &ModelSource::att_context_size,
                   "Attention context of a cache-aware encoder in frames: [left, right], or [left, "
                   "chunk, right]. `rtfx inspect` lists those of a model.",
                   JsonView::range_text(int64_t{-1}, 1 << 20),
                   [](const JsonView& v) { return v.integer(-1, 1 << 20); })
           .by_default("the model's"),
       text_option("language", &ModelSource::language,
                   "Language of utterances whose manifest states none. Only prompt-conditioned "
                   "models use it.")
           .by_default("the model's")},
      kKey};
  return keys;
}

}  // namespace

const OptionTable<DatasetSource>& dataset_keys() {
  static const OptionTable<DatasetSource> keys{
      {text_option("id", &DatasetSource::id, "Short name, which appears in the names of cases.")
           .required(),
       path_option("manifest", &DatasetSource::manifest,
                   "Manifest of JSON lines, or a folder in the layout of LibriSpeech. Give exactly "
                   "one of manifest, librispeech and files."),
       path_option("librispeech", &DatasetSource::librispeech,
                   "Folder in the layout of LibriSpeech. `manifest` reads it in the same way."),
       paths_option("files", &DatasetSource::files, "Audio files, or folders of audio files."),
       text_option("stand_in", &DatasetSource::stand_in,
                   "Description of the audio, if it stands in for the set that its id names. "
                   "Tables and reports show it.")
           .by_default("what stand_in.txt beside the data says"),
       list_option("batch_sizes", &DatasetSource::batch_sizes,
                   "The dataset is used only at these batch sizes.",
                   JsonView::range_text(int64_t{1}, 65536),
                   [](const JsonView& v) { return v.integer(1, 65536); })
           .by_default("all"),
       option("limit", &DatasetSource::limit,
              "Only this many utterances are used, from the first on.", 1)
           .by_default("all"),
       list_option("seconds", &DatasetSource::seconds,
                   "Length in seconds to which each utterance is cut or repeated. Its reference is "
                   "then left out. Several lengths take turns from utterance to utterance. 0 keeps "
                   "the utterance.",
                   JsonView::range_text(0.0, 36000.0),
                   [](const JsonView& v) {
                     const double seconds = v.number(0, 36000);
                     if (seconds > 0 && seconds * kSampleRate < 1)
                       v.fail("0, or at least a sample");
                     return seconds;
                   })
           .by_default("0")},
      kKey};
  return keys;
}

namespace {

/// Returns whether the list has at least two texts or truth values, each once.
bool are_choices(const nlohmann::json& list) {
  const std::set<nlohmann::json> different(list.begin(), list.end());
  return different.size() >= 2 && different.size() == list.size() &&
         std::ranges::all_of(list, [](const auto& v) { return v.is_string() || v.is_boolean(); });
}

bool are_ends(const nlohmann::json& list) {
  return list.size() == 2 && list[0].is_number() && list[1].is_number() &&
         list[0].get<double>() < list[1].get<double>();
}

/// Reads, for example, {"lm.alpha": [0, 1], "lm.pruning": ["late", "early"]}.
std::map<std::string, TuneRange> read_ranges(const JsonView& v) {
  if (!v.value().is_object() || v.value().empty())
    v.fail(R"({"OPTION": [LOW, HIGH] or [CHOICE, CHOICE, ...], ...})");
  std::map<std::string, TuneRange> ranges;
  for (const auto& [name, values] : v.value().items()) {
    if (values.is_array() && are_ends(values))
      ranges[name] = {.low = values[0], .high = values[1]};
    else if (values.is_array() && are_choices(values))
      ranges[name] = {.choices = {values.begin(), values.end()}};
    else
      v.at(name).fail("two numbers, the smaller one first, or different texts to choose among");
  }
  return ranges;
}

const OptionTable<TuneSpec>& tune_keys() {
  static const OptionField<TuneSpec> dataset{
      "dataset",
      "Development set: the id of one of `datasets`, or an object with the same keys.",
      "text or an object",
      [](TuneSpec& spec, const JsonView& v) {
        if (v.value().is_object())
          spec.dataset = dataset_keys().fill(v);
        else
          spec.dataset.id = v.text();
      },
      [](const TuneSpec& spec) {
        return detail::without_empty(dataset_keys().resolved(spec.dataset));
      },
      /*is_file=*/false,
      dataset_keys().info()};
  static const OptionField<TuneSpec> options{
      "options",
      "Options whose values are chosen, by their names in `rtfx list`, each with its range or its "
      "choices.",
      "{\"OPTION\": [LOW, HIGH] or [CHOICE, ...], ...}",
      [](TuneSpec& spec, const JsonView& v) { spec.options = read_ranges(v); },
      [](const TuneSpec& spec) {
        nlohmann::json ranges;
        for (const auto& [name, range] : spec.options) {
          ranges[name] = range.choices.empty() ? nlohmann::json{range.low, range.high}
                                               : nlohmann::json(range.choices);
        }
        return ranges;
      }};
  static const OptionField<TuneSpec> chosen{
      "chosen",
      "Values that `rtfx tune` chose, with their word error rate. rtfx writes this key; journals "
      "keep it.",
      "any", [](TuneSpec& spec, const JsonView& v) { spec.chosen = v.value(); },
      [](const TuneSpec& spec) { return spec.chosen; }};
  static const OptionTable<TuneSpec> keys{
      {text_option("decoder", &TuneSpec::decoder, "Id of the decoder whose options are chosen.")
           .required(),
       dataset.required(), options.required(),
       list_option("models", &TuneSpec::models,
                   "Ids of the models for which the options are chosen.", "text", read_string)
           .by_default("all that the decoder is for"),
       list_option("shared_with", &TuneSpec::shared_with,
                   "Ids of further decoders that get the chosen values, such as other forms of the "
                   "same search.",
                   "text", read_string)
           .by_default("none"),
       option("grid", &TuneSpec::grid,
              "Number of values in the first grid over the range of each option.", 2, 100),
       option("tolerance", &TuneSpec::tolerance,
              "Accuracy of each value, as a share of the option's range. The grid is refined until "
              "its spacing is at most this share.",
              1e-4, 1),
       chosen},
      kKey};
  return keys;
}

const OptionTable<DecoderSpec>& decoder_keys() {
  static OptionField<DecoderSpec> options{
      "options",
      "Options of the decoder, which `rtfx list NAME` describes. An option with a list of values "
      "makes one decoder for each value.",
      "an object",
      [](DecoderSpec& spec, const JsonView& v) {
        if (!v.value().is_object()) v.fail("a JSON object");
        spec.options = v.value();
      },
      [](const DecoderSpec& spec) { return spec.options; }};
  static const OptionTable<DecoderSpec> keys{
      {text_option("id", &DecoderSpec::id, "Short name, which appears in the names of cases.")
           .by_default("its name"),
       text_option("name", &DecoderSpec::name, "Name of the decoder. `rtfx list` prints all names.")
           .required(),
       options,
       list_option(
           "models", &DecoderSpec::models,
           "The decoder runs only with models of these ids or kinds (ctc, rnnt, multiblank, tdt).",
           "text", read_string)
           .by_default("all"),
       list_option("datasets", &DecoderSpec::datasets,
                   "The decoder runs only on datasets of these ids, for example because its "
                   "language model is made for them.",
                   "text", read_string)
           .by_default("all"),
       text_option(
           "baseline", &DecoderSpec::baseline,
           "Id of the decoder with which this one is compared, in place of the run's baseline.")
           .by_default("the run's, or the first of CTC")},
      kKey};
  return keys;
}

const OptionTable<Protocol>& protocol_keys() {
  static const OptionTable<Throughput> throughput{
      {option("in_flight", &Throughput::in_flight,
              "Largest number of batches in flight, from padding to text. 1 runs batches one after "
              "the other, without a wait between regions.",
              1, 1024),
       option("audio", &Throughput::audio,
              "`memory`: all audio is read before the pass. `files`: each pass reads and resamples "
              "the files anew, ahead of the batches, with `threads` threads.",
              {"memory", "files"})},
      kKey};
  static const OptionTable<Protocol> keys{
      {option("mode", &Protocol::mode,
              "`isolated` times each region (features, encoder, decoder, ...) and waits for the "
              "device after it. `throughput` runs each decoder by itself with overlapped batches, "
              "and times the whole pass by the wall clock.",
              {"isolated", "throughput"}),
       option("throughput", &Protocol::throughput, "Settings of the mode `throughput`.",
              throughput),
       option("warmup_rounds", &Protocol::warmup_rounds,
              "Number of passes before the measured ones. In the mode `throughput`, they use other "
              "batches than the measured passes.",
              0, 1000),
       option("measured_rounds", &Protocol::measured_rounds, "Number of measured rounds.", 1, 1000),
       option(
           "seed", &Protocol::seed,
           "Seed of the shuffle of the decoders, of the `sort` `shuffle`, and of the arrivals of "
           "simulated streams. The decoders are shuffled once, and their order in each round "
           "follows from that.",
           0),
       option("cv_max", &Protocol::cv_max,
              "A case is NOISY if the standard deviation of its total RTFx, divided by the mean, "
              "is above this value.",
              0, 10),
       option("aa_control", &Protocol::aa_control,
              "Run the baseline twice (A/A control). `rtfx gate` takes the 95 % interval of the "
              "ratio of both. Its noise floor is at least the larger distance of an end of this "
              "interval from 1."),
       option("precision", &Protocol::precision,
              "Add rounds until the 95 % interval of every total RTFx is within ± this share of "
              "it. 0 adds none.",
              0, 1),
       option("extra_rounds", &Protocol::extra_rounds,
              "Largest number of rounds that `precision` adds.", 0, 1000),
       option("budget_seconds", &Protocol::budget_seconds,
              "Once a group of cases has taken this many seconds, `precision` adds no further "
              "round. 0 sets no limit.",
              0, 1e7),
       option("case_limit_seconds", &Protocol::case_limit_seconds,
              "A case fails if all its rounds together take longer than this many seconds, "
              "including the encoder. 0 sets no limit.",
              0, 1e7),
       option("steady_seconds", &Protocol::steady_seconds,
              "In the mode `throughput`, a measured round repeats its pass for at least this many "
              "seconds and reports the mean pass. 0 makes one pass.",
              0, 1e5),
       option("energy_seconds", &Protocol::energy_seconds,
              "On a GPU, each case runs alone for at least this many seconds after the first "
              "measured round, to measure its energy. 0 does not measure energy.",
              0, 3600)},
      kKey};
  return keys;
}

/// Declares an object whose members are keys of the configuration itself.
OptionField<Config> group(std::string name, std::string help, const OptionTable<Config>& table) {
  return {std::move(name),
          std::move(help),
          "an object",
          [&table](Config& c, const JsonView& v) { table.fill_into(c, v); },
          [&table](const Config& c) { return table.resolved(c); },
          /*is_file=*/false,
          table.info(),
          /*is_required=*/false,
          "as below"};
}

OptionField<Config> required_grade(const std::string& dtype) {
  return {dtype, "Worst grade for " + dtype + ".", detail::choice_text(grade_names()),
          [dtype](Config& c, const JsonView& v) { c.required[dtype] = v.choice(grade_names()); },
          [dtype](const Config& c) { return nlohmann::json(c.required.at(dtype)); }};
}

const OptionTable<Config>& verify_keys() {
  static const OptionTable<Config> required{{required_grade("fp32"), required_grade("bf16"),
                                             required_grade("fp16"), required_grade("fp64")},
                                            kKey};
  static const OptionTable<Config> keys{
      {group("required",
             "Worst grade that exact decoders may have, by the dtype of the decoder. `fp8` follows "
             "`bf16`, and `bf16+fp32` follows `fp32`. With a grade better than `different`, a "
             "failed replay of any decoder is an error too.",
             required),
       option("replay", &Config::replay,
              "Replay results: compute every decision again with the reference network and check "
              "it. This is not timed. For beam searches on a CPU it takes as long as decoding."),
       option("wer_above_fp32", &Config::wer_above_fp32,
              "Largest amount by which the word error rate in another dtype may exceed that of the "
              "same case in fp32. 0.001 is 0.1 percentage points. The default, 1, allows 100 "
              "percentage points, so it checks almost nothing. The run must also contain the same "
              "case in fp32.",
              0, 1),
       option("isolated", &Config::isolated,
              "In the mode `throughput`, compare results with those of one pass in the mode "
              "`isolated`, which follows the first measured round.")},
      kKey};
  return keys;
}

constexpr const char* kBatchSizes = "an integer 1..65536 | max";

int64_t read_batch_size(const JsonView& v) {
  if (v.value() == "max") return kLargestBatch;
  if (v.value().is_string()) v.fail(kBatchSizes);
  return v.integer(1, 65536);
}

constexpr const char* kDevices = "auto | cpu | cuda | cuda:N";

/// Checks only the spelling, since a configuration may be for another machine.
std::string read_device(const JsonView& v) {
  const std::string device = v.text();
  const std::string number = device.starts_with("cuda:") ? device.substr(5) : "";
  const bool is_gpu = !number.empty() && number.size() <= 3 &&
                      number.find_first_not_of("0123456789") == std::string::npos;
  if (device != "auto" && device != "cpu" && device != "cuda" && !is_gpu) v.fail(kDevices);
  return device;
}

/// Declares a key that other code reads.
OptionField<Config> foreign(const std::string& name, std::string help) {
  return {name, std::move(help), "any",
          [name](Config& c, const JsonView& v) { c.foreign[name] = v.value(); },
          [](const Config&) { return nlohmann::json(); }};
}

/// Returns the members of `prepare`, from which harness/cli/prepare.h makes files.
std::vector<OptionInfo> prepare_members() {
  const auto member = [](const char* name, const char* help, const char* allowed,
                         nlohmann::json value = {}) {
    return OptionInfo{.name = name,
                      .help = help,
                      .allowed = allowed,
                      .default_value = std::move(value),
                      .default_text = {},
                      .is_file = std::string_view(allowed) == "a path"};
  };
  return {
      member("graph", "Decoding graph to make. Give either graph or words.", "a path"),
      member("lexicon", "Lexicon: words with their pieces.", "a path"),
      member("lm", "Language model over words for the graph, an ARPA file.", "a path"),
      member("topology", "Topology of the graph (`rtfx graph build`).",
             "normal | compact | tokens | normal_riva", "compact"),
      member("words", "List of words to make, for phrase boosting.", "a path"),
      member("dataset", "Id of the dataset from whose texts the words come.", "text"),
      member("said",
             "`true` takes words of these texts. `false` takes as many other words of the lexicon.",
             "true | false", true)};
}

/// Returns the list `prepare` with the defaults of its entries.
nlohmann::json with_defaults(const JsonView& prepare) {
  nlohmann::json list = nlohmann::json::array();
  for (const JsonView& entry : prepare.elements()) {
    nlohmann::json& made = list.emplace_back(entry.value());
    const std::string own = made.contains("graph") ? "topology" : "said";
    const auto members = prepare_members();
    const auto member = std::ranges::find(members, own, &OptionInfo::name);
    if (made.is_object() && !entry.find(own)) made[own] = member->default_value;
  }
  return list;
}

}  // namespace

const OptionTable<Config>& config_keys() {
  static auto stream =
      option("stream", &Config::stream, "Streams that `rtfx stream` simulates.", stream_keys());
  stream.set = [](Config& c, const JsonView& v) { c.stream = read_stream_settings(v); };
  stream.get = [](const Config& c) {
    return c.stream ? detail::without_empty(stream_keys().resolved(*c.stream)) : nlohmann::json();
  };
  static auto prepare =
      foreign("prepare", "Files that are made before the run if they do not exist.");
  prepare.members = prepare_members();
  prepare.set = [](Config& c, const JsonView& v) { c.foreign["prepare"] = with_defaults(v); };
  static auto batch_sizes =
      list_option("batch_sizes", &Config::batch_sizes,
                  "Number of utterances in a batch. `max` tries which number fits into memory. "
                  "Give this or batch_seconds, unless all datasets have batch_sizes.",
                  kBatchSizes, read_batch_size);
  batch_sizes.get = [](const Config& c) {
    nlohmann::json sizes = nlohmann::json::array();
    for (const int64_t size : c.batch_sizes)
      sizes.push_back(size == kLargestBatch ? nlohmann::json("max") : nlohmann::json(size));
    return sizes;
  };
  static const OptionTable<Config> keys{
      {text_option("question", &Config::question,
                   "Question that the run answers. The report shows it first.")
           .required(),
       text_option("name", &Config::name, "Name of the run and of its folder in runs/.")
           .by_default("the file's name"),
       as_path(
           list_option("models", &Config::models,
                       "Checkpoints. A path is short for {\"path\": ...}.", model_keys(),
                       [](const JsonView& v) { return ModelSource{.id = {}, .path = v.text()}; }))
           .required(),
       list_option("datasets", &Config::datasets, "Sets of utterances.", dataset_keys(),
                   [](const JsonView& v) { return dataset_keys().fill(v); })
           .required(),
       list_option("decoders", &Config::decoders,
                   "Decoders to compare. A name is short for {\"name\": ...}.", decoder_keys(),
                   [](const JsonView& v) {
                     DecoderSpec spec;
                     spec.name = v.text();
                     return spec;
                   })
           .required(),
       text_option("baseline", &Config::baseline,
                   "Id of the decoder with which the others are compared. A CTC decoder can be it "
                   "only if there is no other kind.")
           .by_default("the first of its kind"),
       batch_sizes,
       list_option("batch_seconds", &Config::batch_seconds,
                   "Largest length of a batch in seconds of audio, padding included.",
                   JsonView::range_text(1.0, 1e6),
                   [](const JsonView& v) { return v.number(1, 1e6); }),
       list_option("dtypes", &Config::dtypes,
                   "Number types of encoder and decoder. An object or \"bf16+fp32\" gives each its "
                   "own. `fp8` is an encoder in fp8 with a decoder in bf16. `fp64` needs a CPU. "
                   "Features are always fp32.",
                   R"(fp32 | bf16 | fp16 | fp8 | fp64 | {"encoder": ..., "decoder": ...})",
                   read_dtypes),
       option("sort", &Config::sort, "Order of the utterances before they are batched.",
              {"duration_desc", "duration_asc", "none", "shuffle"}),
       detail::field("device", &Config::device,
                     "Device of encoder and decoders. `auto` takes a GPU if there is one. --device "
                     "overrides this key.",
                     kDevices, read_device),
       option("threads", &Config::threads,
              "Number of CPU threads. 0: OMP_NUM_THREADS if it is set, else all CPUs that the "
              "process may use. --threads overrides this key.",
              0, kMaxThreads),
       option("protocol", &Config::protocol, "How, and how often, each case is measured.",
              protocol_keys()),
       group("verify", "Conditions under which a run fails.", verify_keys()),
       option("scorer", &Config::scorer,
              "Text normaliser that is applied before word errors are counted.",
              normalizer_names()),
       option("encoder", &Config::encoder,
              "Implementation of the encoder. `reference`: operators of LibTorch. `fused`: rtfx's "
              "own kernels (GPU; bf16 or fp16). `automatic`: fused where possible.",
              encoder_form_names()),
       option(
           "encoder_graphs", &Config::encoder_graphs,
           "On a GPU, run the encoder as one CUDA graph for each batch shape. Shapes are rounded "
           "up, so that few graphs serve all batches. `false` launches each kernel by itself."),
       option("confidence", &Config::confidence,
              "Compute how sure the model is of each token, and write it to hypotheses/. Its time "
              "is a region of its own.",
              confidence_options()),
       option(
           "sync_debug", &Config::sync_debug,
           "Fail if a decoder waits for the GPU without declaring it. --sync-debug sets this key."),
       option("isolate", &Config::isolate,
              "Run each group of cases in a child process. A group holds the cases that differ "
              "only by the decoder. A crash then fails only the case that was running, or the "
              "group's cases in a stage that they share."),
       text_option(
           "output", &Config::output,
           "Folder of the journal, relative to the working folder. --output overrides this key.",
           "a path")
           .by_default("runs/ and the run's name"),
       stream,
       list_option("tune", &Config::tune,
                   "Options that `rtfx tune` chooses, each with its development set.", tune_keys(),
                   [](const JsonView& v) { return tune_keys().fill(v); }),
       paths_option("plugins", &Config::plugins, "Shared libraries that add decoders."),
       prepare,
       foreign("paper", "Source of a published table (for `rtfx reproduce`)."),
       foreign("cells", "Figures of a published table (for `rtfx reproduce`).")},
      kKey};
  return keys;
}

}  // namespace rtfx
