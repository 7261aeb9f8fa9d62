#include <algorithm>
#include <set>

#include "harness/config/config.h"
#include "harness/scoring/exactness.h"
#include "harness/scoring/normalize.h"
#include "models/dtypes.h"

namespace rtfx {
namespace {

constexpr const char* kKey = "key";

/// A label, or {"encoder": ..., "decoder": ...}; as its label.
std::string read_dtypes(const JsonView& v) {
  if (!v.value().is_object()) return parse_dtypes(v.text(), v.where()).label();
  v.check_keys({"encoder", "decoder"}, kKey);
  return parse_dtypes(v.at("encoder").text() + "+" + v.at("decoder").text(), v.where()).label();
}

std::string read_text(const JsonView& v) { return v.text(); }

/// Says that the value, or each text in it, is a path relative to the configuration.
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
  return as_path(list_option(std::move(name), member, std::move(help), "a path", read_text));
}

const OptionTable<ModelSource>& model_keys() {
  static const OptionTable<ModelSource> keys{
      {text_option("id", &ModelSource::id, "stands in the names of cases")
           .by_default("the checkpoint's name"),
       path_option(
           "path", &ModelSource::path,
           "checkpoint: a file, a folder, or the name of a downloaded model of huggingface.co")
           .required(),
       list_option("att_context_size", &ModelSource::att_context_size,
                   "attention context of a cache-aware encoder",
                   JsonView::range_text(int64_t{-1}, 1 << 20),
                   [](const JsonView& v) { return v.integer(-1, 1 << 20); })
           .by_default("the model's"),
       text_option(
           "language", &ModelSource::language,
           "language of utterances whose manifest states none, for a prompt-conditioned model")
           .by_default("the model's")},
      kKey};
  return keys;
}

const OptionTable<DatasetSource>& dataset_keys() {
  static const OptionTable<DatasetSource> keys{
      {text_option("id", &DatasetSource::id, "stands in the names of cases").required(),
       path_option("manifest", &DatasetSource::manifest,
                   "manifest of JSON lines, or a LibriSpeech folder; this, librispeech or files "
                   "must be given"),
       path_option("librispeech", &DatasetSource::librispeech, "folder as LibriSpeech's"),
       paths_option("files", &DatasetSource::files, "audio files, or folders of them"),
       text_option("stand_in", &DatasetSource::stand_in,
                   "what the audio is, where it stands in for the set it is named after")
           .by_default("what stand_in.txt beside the data says"),
       list_option("batch_sizes", &DatasetSource::batch_sizes,
                   "use the dataset only at these batch sizes",
                   JsonView::range_text(int64_t{1}, 65536),
                   [](const JsonView& v) { return v.integer(1, 65536); })
           .by_default("all"),
       option("limit", &DatasetSource::limit, "only the first so many utterances", 1)
           .by_default("all"),
       list_option(
           "seconds", &DatasetSource::seconds,
           "length that each utterance is cut to, or repeated up to, its reference left out; "
           "of several lengths, utterances have one after the other; 0: as it is",
           JsonView::range_text(0.0, 36000.0), [](const JsonView& v) { return v.number(0, 36000); })
           .by_default("0")},
      kKey};
  return keys;
}

/// At least two texts or truth values, each once.
bool are_choices(const nlohmann::json& list) {
  const std::set<nlohmann::json> different(list.begin(), list.end());
  return different.size() >= 2 && different.size() == list.size() &&
         std::ranges::all_of(list, [](const auto& v) { return v.is_string() || v.is_boolean(); });
}

bool are_ends(const nlohmann::json& list) {
  return list.size() == 2 && list[0].is_number() && list[1].is_number() &&
         list[0].get<double>() < list[1].get<double>();
}

/// {"lm.alpha": [0, 1], "lm.pruning": ["late", "early"]}
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
      "development set: the id of one in `datasets`, or one of its own",
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
      "range or choices of each option whose value is chosen, by its name in `rtfx list`",
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
      "chosen", "what `rtfx tune` found, and its word error rate: journals keep it", "any",
      [](TuneSpec& spec, const JsonView& v) { spec.chosen = v.value(); },
      [](const TuneSpec& spec) { return spec.chosen; }};
  static const OptionTable<TuneSpec> keys{
      {text_option("decoder", &TuneSpec::decoder, "id of the decoder").required(),
       dataset.required(), options.required(),
       list_option("models", &TuneSpec::models, "ids of the models it is tuned for", "text",
                   read_text)
           .by_default("all that the decoder is for"),
       list_option("shared_with", &TuneSpec::shared_with,
                   "ids of decoders that get the chosen values too: other forms of the search",
                   "text", read_text)
           .by_default("none"),
       option("grid", &TuneSpec::grid, "values of each option that are tried first", 2, 100),
       option("tolerance", &TuneSpec::tolerance,
              "how accurately each value is found, as a share of the option's range", 1e-4, 1),
       chosen},
      kKey};
  return keys;
}

const OptionTable<DecoderSpec>& decoder_keys() {
  static OptionField<DecoderSpec> options{
      "options", "of the decoder (`rtfx list`); a list of values of one is a decoder each",
      "an object",
      [](DecoderSpec& spec, const JsonView& v) {
        if (!v.value().is_object()) v.fail("a JSON object");
        spec.options = v.value();
      },
      [](const DecoderSpec& spec) { return spec.options; }};
  static const OptionTable<DecoderSpec> keys{
      {text_option("id", &DecoderSpec::id, "stands in the names of cases").by_default("its name"),
       text_option("name", &DecoderSpec::name, "the decoder (`rtfx list`)").required(), options,
       list_option("models", &DecoderSpec::models,
                   "only for models of these ids or kinds (ctc, rnnt, multiblank, tdt)", "text",
                   read_text)
           .by_default("all"),
       list_option("datasets", &DecoderSpec::datasets,
                   "only for datasets of these ids, such as a language model of theirs", "text",
                   read_text)
           .by_default("all"),
       text_option("baseline", &DecoderSpec::baseline,
                   "id of the decoder that this one is compared with: a rival's search with ours")
           .by_default("the run's, or the first of CTC")},
      kKey};
  return keys;
}

const OptionTable<Protocol>& protocol_keys() {
  static const OptionTable<Throughput> throughput{
      {option(
           "in_flight", &Throughput::in_flight,
           "batches between the begin of their padding and their text, at most; 1: one after the "
           "other, without a wait between regions",
           1, 1024),
       option("audio", &Throughput::audio,
              "`files`: each pass reads and resamples the audio files anew, ahead of the batches "
              "and by "
              "as many threads as `threads` says",
              {"memory", "files"})},
      kKey};
  static const OptionTable<Protocol> keys{
      {option("mode", &Protocol::mode,
              "`isolated`: region by region, with a wait for the device after each; `throughput`: "
              "each decoder by itself, batches overlapped, by the wall clock of the whole pass",
              {"isolated", "throughput"}),
       option("throughput", &Protocol::throughput, "settings of the mode `throughput`", throughput),
       option(
           "warmup_rounds", &Protocol::warmup_rounds,
           "passes that are not measured; in the mode `throughput`, their batches are others than "
           "the measured ones",
           0, 1000),
       option("measured_rounds", &Protocol::measured_rounds, "rounds that are measured", 1, 1000),
       option("seed", &Protocol::seed, "seed of the order of the decoders and of `shuffle`", 0),
       option("cv_max", &Protocol::cv_max,
              "standard deviation / mean of the total RTFx above which a case is NOISY", 0, 10),
       option("aa_control", &Protocol::aa_control,
              "run the baseline twice; the gate's noise floor is at least the difference of both"),
       option("precision", &Protocol::precision,
              "go on until the 95 % interval of every total RTFx is within ± this share; 0: no", 0,
              1),
       option("extra_rounds", &Protocol::extra_rounds,
              "largest number of rounds that `precision` adds", 0, 1000),
       option("budget_seconds", &Protocol::budget_seconds,
              "limits the rounds that `precision` adds: none begins once a group of cases has "
              "taken this time; 0: no limit",
              0, 1e7),
       option("case_limit_seconds", &Protocol::case_limit_seconds,
              "a case that takes longer in all its rounds fails, the encoder's passes included; 0: "
              "no limit",
              0, 1e7),
       option("steady_seconds", &Protocol::steady_seconds,
              "in the mode `throughput`, a measured round repeats its pass for at least this time, "
              "and its figures are those of the mean pass; 0: one pass",
              0, 1e5),
       option(
           "energy_seconds", &Protocol::energy_seconds,
           "on a GPU, each case is repeated alone for at least this time after the first measured "
           "round, which measures its energy; 0: not measured",
           0, 3600)},
      kKey};
  return keys;
}

/// An object whose members are keys of the configuration itself.
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
  return {dtype, "of " + dtype, detail::choice_text(grade_names()),
          [dtype](Config& c, const JsonView& v) { c.required[dtype] = v.choice(grade_names()); },
          [dtype](const Config& c) { return nlohmann::json(c.required.at(dtype)); }};
}

const OptionTable<Config>& verify_keys() {
  static const OptionTable<Config> required{{required_grade("fp32"), required_grade("bf16"),
                                             required_grade("fp16"), required_grade("fp64")},
                                            kKey};
  static const OptionTable<Config> keys{
      {group("required",
             "worst allowed grade of exact decoders, by their dtype; below `different`, a failed "
             "replay "
             "of any decoder is an error",
             required),
       option("replay", &Config::replay,
              "feed results through the reference network and check every decision; outside the "
              "timed part, on a CPU as long as decoding for beams"),
       option("wer_above_fp32", &Config::wer_above_fp32,
              "largest difference by which a word error rate in another dtype may be above that of "
              "the same case in fp32: 0.001 is 0.1 points",
              0, 1),
       option(
           "isolated", &Config::isolated,
           "compare results of the mode `throughput` with those of a pass region by region, which "
           "is made once, after the first measured round")},
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

/// The spelling alone is checked: a configuration may be for another machine.
std::string read_device(const JsonView& v) {
  const std::string device = v.text();
  const std::string number = device.starts_with("cuda:") ? device.substr(5) : "";
  const bool is_gpu = !number.empty() && number.size() <= 3 &&
                      number.find_first_not_of("0123456789") == std::string::npos;
  if (device != "auto" && device != "cpu" && device != "cuda" && !is_gpu) v.fail(kDevices);
  return device;
}

/// A key that somebody else reads.
OptionField<Config> foreign(std::string name, std::string help) {
  return {std::move(name), std::move(help), "any", [](Config&, const JsonView&) {},
          [](const Config&) { return nlohmann::json(); }};
}

/// The members of `prepare`, which harness/cli/prepare.h makes files of.
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
  return {member("graph", "search graph that is made; this or words must be given", "a path"),
          member("lexicon", "words with their pieces", "a path"),
          member("lm", "word language model of a graph, an ARPA file", "a path"),
          member("topology", "of a graph", "normal | compact | normal_riva", "compact"),
          member("words", "list of words that is made, to boost", "a path"),
          member("dataset", "id of the dataset whose texts hold the words", "text"),
          member("said", "words of these texts; `false`: as many other words of the lexicon",
                 "true | false", true)};
}

}  // namespace

const OptionTable<Config>& config_keys() {
  static auto stream =
      option("stream", &Config::stream, "what `rtfx stream` simulates", stream_keys());
  stream.set = [](Config& c, const JsonView& v) { c.stream = read_stream_settings(v); };
  stream.get = [](const Config& c) {
    return c.stream ? detail::without_empty(stream_keys().resolved(*c.stream)) : nlohmann::json();
  };
  static auto prepare = foreign("prepare", "files that are made where they are absent");
  prepare.members = prepare_members();
  static auto batch_sizes =
      list_option("batch_sizes", &Config::batch_sizes,
                  "utterances in a batch; `max`: as many as fit, found by "
                  "trying; this or batch_seconds must be given, unless all datasets "
                  "have batch_sizes",
                  kBatchSizes, read_batch_size);
  batch_sizes.get = [](const Config& c) {
    nlohmann::json sizes = nlohmann::json::array();
    for (const int64_t size : c.batch_sizes)
      sizes.push_back(size == kLargestBatch ? nlohmann::json("max") : nlohmann::json(size));
    return sizes;
  };
  static const OptionTable<Config> keys{
      {text_option("question", &Config::question,
                   "what the run is to answer; stands at the head of the report")
           .required(),
       text_option("name", &Config::name, "names the run and its folder in runs/")
           .by_default("the file's name"),
       as_path(
           list_option("models", &Config::models, "checkpoints; a path stands for {\"path\": ...}",
                       model_keys(),
                       [](const JsonView& v) { return ModelSource{.id = {}, .path = v.text()}; }))
           .required(),
       list_option("datasets", &Config::datasets, "utterances", dataset_keys(),
                   [](const JsonView& v) { return dataset_keys().fill(v); })
           .required(),
       list_option("decoders", &Config::decoders, "a name stands for {\"name\": ...}",
                   decoder_keys(),
                   [](const JsonView& v) {
                     DecoderSpec spec;
                     spec.name = v.text();
                     return spec;
                   })
           .required(),
       text_option("baseline", &Config::baseline,
                   "id of the decoder that the others are compared with; of CTC alone where there "
                   "is no other kind")
           .by_default("the first of its kind"),
       batch_sizes,
       list_option("batch_seconds", &Config::batch_seconds,
                   "seconds of audio in a batch, padding included", JsonView::range_text(1.0, 1e6),
                   [](const JsonView& v) { return v.number(1, 1e6); }),
       list_option(
           "dtypes", &Config::dtypes,
           "of encoder and decoder; of each with an object, or in short \"bf16+fp32\"; "
           "`fp8`: an encoder in fp8, a decoder in bf16; `fp64`: on a CPU only. Features are "
           "always fp32",
           R"(fp32 | bf16 | fp16 | fp8 | fp64 | {"encoder": ..., "decoder": ...})", read_dtypes),
       option("sort", &Config::sort, "order before batching",
              {"duration_desc", "duration_asc", "none", "shuffle"}),
       detail::field("device", &Config::device,
                     "`auto` takes a GPU if there is one (also --device)", kDevices, read_device),
       option("threads", &Config::threads,
              "CPU threads; 0: all that the process may use (also --threads)", 0, kMaxThreads),
       option("protocol", &Config::protocol, "how, and how often, is measured", protocol_keys()),
       group("verify", "what lets a run fail", verify_keys()),
       option("scorer", &Config::scorer, "normalisation before counting word errors",
              normalizer_names()),
       option(
           "encoder", &Config::encoder,
           "by LibTorch's operators, or by kernels that do several of their steps at once (GPUs, "
           "bf16 and fp16); `automatic`: fused where that is possible",
           encoder_form_names()),
       option(
           "encoder_graphs", &Config::encoder_graphs,
           "on a GPU, run the encoder as a CUDA graph for each size of batch, with sizes rounded "
           "up; `false`: kernel by kernel"),
       option("confidence", &Config::confidence,
              "how sure the model is of each token, into hypotheses/; a region of its own",
              confidence_options()),
       option("sync_debug", &Config::sync_debug,
              "fail where a decoder waits for the GPU without declaring it (also --sync-debug)"),
       option("isolate", &Config::isolate,
              "each group of cases in a child process: a crash costs the case that was running one "
              "record"),
       text_option("output", &Config::output,
                   "folder of the journal, relative to the working folder (also --output)",
                   "a path")
           .by_default("runs/ and the run's name"),
       stream,
       list_option("tune", &Config::tune, "what `rtfx tune` chooses, on which set", tune_keys(),
                   [](const JsonView& v) { return tune_keys().fill(v); }),
       paths_option("plugins", &Config::plugins, "shared libraries with further decoders"),
       prepare,
       foreign("paper", "of a published table: where it stands (`rtfx reproduce`)"),
       foreign("cells", "of a published table: its figures (`rtfx reproduce`)")},
      kKey};
  return keys;
}

}  // namespace rtfx
