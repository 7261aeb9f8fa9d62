#include "harness/cli/graph_commands.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/import_graph.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "algorithms/shared/wfst/word_lattice.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/config/plan.h"
#include "harness/results/journal.h"
#include "harness/run/compiled_biases.h"
#include "harness/run/workspace.h"
#include "models/formats/hub.h"
#include "models/load_checkpoint.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/sentencepiece.h"
#include "models/tokenizers/tokenizer_json.h"
#include "speech/pipeline/pipeline.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

constexpr double kMiB = 1 << 20;

void print_file(const std::filesystem::path& file, const WfstGraph& graph) {
  const GraphView& view = graph.view();
  fmt::print(
      "{}: topology {}, {} words, {} states, {} emitting and {} non-emitting arcs, {:.1f} MiB\n",
      printable(file.string()), graph.topology(), graph.words(), view.states, view.emitting_arcs,
      view.arc_count - view.emitting_arcs, static_cast<double>(graph.bytes()) / kMiB);
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& given) {
  const std::filesystem::path path = find_checkpoint(given);
  const auto ending = path.extension();
  if (ending == ".nemo" || std::filesystem::is_directory(path))
    return load_checkpoint(path).tokenizer;
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in || bytes.empty()) {
    throw UserError(path.string(), "cannot be read",
                    "give a checkpoint, a SentencePiece .model, a vocab.txt or a tokenizer.json");
  }
  if (ending == ".txt") return wordpiece_tokenizer(bytes, path.string());
  if (ending == ".json") return tokenizer_json(bytes, -1, path.string());
  return sentencepiece_tokenizer(bytes, path.string());
}

int build_graph_file(const GraphOptions& options) {
  const auto tokenizer = load_tokenizer(options.tokenizer);
  const GraphSources sources{options.lexicon, options.lm,
                             parse_topology(options.topology, "--topology"),
                             options.drop_unspelled};
  fmt::print("{:<20} {:>10} {:>11} {:>8} {:>9}\n", "stage", "states", "arcs", "seconds",
             "peak MiB");
  const BuiltGraph built = build_graph(*tokenizer, sources, [](const GraphStage& stage) {
    fmt::print("{:<20} {:>10} {:>11} {:>8.2f} {:>9.0f}\n", stage.name, stage.states, stage.arcs,
               stage.seconds, static_cast<double>(stage.peak_bytes) / kMiB);
    std::fflush(stdout);
  });
  built.graph.write(options.output);
  if (built.dropped_words > 0)
    fmt::print("left out: {} lines of the lexicon that cannot be spelled\n", built.dropped_words);
  if (built.unwanted_words > 0) {
    fmt::print("left out: {} of the lexicon that the language model lacks\n",
               counted(built.unwanted_words, "word"));
  }
  if (built.dropped_ngrams > 0)
    fmt::print("left out: {} n-grams with a word that the lexicon lacks\n", built.dropped_ngrams);
  print_file(options.output, built.graph);
  return kOk;
}

int import_graph_file(const GraphOptions& options) {
  std::optional<BlankLabel> blank;
  if (!options.blank.empty()) {
    blank = options.blank == "first"  ? BlankLabel::first
            : options.blank == "none" ? BlankLabel::none
                                      : BlankLabel::last;
  }
  const WfstGraph graph =
      import_graph(*load_tokenizer(options.tokenizer), options.openfst, options.words, blank);
  graph.write(options.output);
  print_file(options.output, graph);
  return kOk;
}

namespace {

using nlohmann::json;

/// Returns the CPU's search with the options of the first decoder that has a graph.
std::unique_ptr<Decoder> lattice_decoder(const Config& config) {
  const std::vector<OptionInfo>& known = find_decoder("ctc_wfst_cpu", "rtfx lattice").options;
  for (const DecoderSpec& spec : config.decoders) {
    if (spec.name != "ctc_wfst" && spec.name != "ctc_wfst_cpu") continue;
    json options = json::object();
    for (const auto& [name, value] : spec.options.items()) {
      const bool shared = std::ranges::any_of(known, [&, key = name](const OptionInfo& option) {
        return option.name == key || option.name.starts_with(key + ".");
      });
      if (shared) options[name] = value;
    }
    options.erase("mbr");  // it ranks lists, and the lattice has risks of its own
    if (!options.value("skip_blank", json()).is_null()) {
      throw UserError(spec.where + "/options/skip_blank", "lattices have all frames",
                      "leave out \"skip_blank\" for `rtfx lattice`");
    }
    return make_decoder("ctc_wfst_cpu", options, spec.where + "/options");
  }
  throw UserError("rtfx lattice", "the configuration has no decoder that searches a decoding graph",
                  R"(add {"name": "ctc_wfst_cpu", "options": {"graph": "words.tlg"}})");
}

/// Returns the utterances' ids as Kaldi's archives and CTM have them. Throws UserError for two that
/// are equal.
std::vector<std::string> kaldi_keys(const std::vector<Utterance>& utterances) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const Utterance& utterance : utterances) {
    std::string key = utterance.id;
    for (char& c : key)
      if (static_cast<unsigned char>(c) <= ' ') c = '_';
    if (key.starts_with(";;")) key.replace(0, 2, "__");  // such a text begins a comment in CTM
    if (!seen.insert(key).second)
      throw UserError(key, "is the key of two utterances", "give them ids that differ in letters");
    keys.push_back(std::move(key));
  }
  return keys;
}

class LatticeWriter {
 public:
  LatticeWriter(const Config& config, const LatticeOptions& options, const WfstGraph& graph,
                LatticeScales scales, double frame_seconds)
      : folder_(config.output),
        options_(options),
        graph_(graph),
        scales_(scales),
        frame_seconds_(frame_seconds) {
    for (const char* name : {"fst", "lattices.txt", "words.txt", "lattices.jsonl"})
      set_aside(folder_ / name);
  }

  void put(const Utterance& utterance, const std::string& key, const WordLattice& lattice) {
    if (lattice.states() == 0) {
      print_message("rtfx: error: {}: no path through the graph, or NaN in the emissions\n",
                    printable(utterance.id));
      ++failed_;
      return;
    }
    const std::string fst = fmt::format("fst/{:05}.txt", number_++);
    write_file(folder_ / fst, openfst_text(lattice, graph_, scales_));
    archive_ += kaldi_text(lattice, key);
    double cost = 0;
    json words = json::array();
    for (const size_t i : best_arcs(lattice, scales_)) {
      cost += scales_.cost(lattice.arcs[i]);
      if (const int32_t word = lattice.arcs[i].word; word != 0) words.push_back(graph_.word(word));
    }
    json line = {{"id", utterance.id},
                 {"key", key},
                 {"fst", fst},
                 {"frames", lattice.frame.back()},
                 {"states", lattice.states()},
                 {"arcs", lattice.arcs.size()},
                 {"cost", cost},
                 {"words", words}};
    if (options_.posteriors) line["posteriors"] = posteriors(lattice);
    lines_ += to_line(line);
    if (options_.mbr) print_mbr(lattice, key);
  }

  int finish() {
    write_file(folder_ / "lattices.txt", archive_);
    write_file(folder_ / "words.txt", symbol_table(graph_));
    write_file(folder_ / "lattices.jsonl", lines_);
    print_message("rtfx: {}: lattices of {}\n", printable(folder_.string()),
                  counted(static_cast<int64_t>(number_), "utterance"));
    return failed_ == 0 ? kOk : kFailed;
  }

 private:
  json posteriors(const WordLattice& lattice) const {
    json frames = json::array();
    for (const auto& words : words_by_frame(lattice, lattice_posteriors(lattice, scales_))) {
      json& frame = frames.emplace_back(json::array());
      for (const WordPosterior& w : words)
        frame.push_back({w.word == 0 ? json() : json(graph_.word(w.word)), w.probability});
    }
    return frames;
  }

  void print_mbr(const WordLattice& lattice, const std::string& key) const {
    for (const MbrWord& w : minimum_bayes_risk(lattice, scales_).words) {
      fmt::print("{} 1 {:.2f} {:.2f} {} {:.3f}\n", printable(key), w.begin * frame_seconds_,
                 (w.end - w.begin) * frame_seconds_, printable(graph_.word(w.word)), w.confidence);
    }
  }

  std::filesystem::path folder_;
  const LatticeOptions& options_;
  const WfstGraph& graph_;
  LatticeScales scales_;
  double frame_seconds_;
  std::string archive_, lines_;
  size_t number_ = 0, failed_ = 0;
};

}  // namespace

int write_lattices(const Config& config, const LatticeOptions& options) {
  require_sizes(config, "rtfx lattice");
  const auto decoder = lattice_decoder(config);
  auto* source = dynamic_cast<LatticeSource*>(decoder.get());
  RTFX_CHECK(source != nullptr, "ctc_wfst_cpu keeps lattices");
  const DeviceScope scope(config.threads, config.device, "device");
  Workspace workspace(config);
  workspace.read_audio_files();
  workspace.print_notices();
  const LoadedDataset& dataset = workspace.datasets().front();
  if (dataset.failure) throw std::runtime_error(*dataset.failure);
  const auto model = workspace.model(0, scope.device(), config.dtypes.front());
  const std::vector<std::string> keys = kaldi_keys(dataset.dataset.utterances);
  decoder->prepare(model, {});
  const CompiledBiases biases =
      compile_biases(*decoder, dataset.dataset.utterances, workspace.normalizer());
  // with a single pass, graphs are not worth recording
  RecordedEncoder encoder(model, /*graphs=*/false);
  std::vector<WordLattice> lattices(dataset.seconds.size());
  for (const auto& batch :
       make_batches(dataset.seconds, config.sort, config.batches.front(), config.protocol.seed)) {
    const Clips clips = clips_of(model->config, dataset, batch);
    RegionTimes times;
    auto found = source->lattices(biases.with_biases(
        encode_batch(*model, encoder, clips, RegionClock(scope.device()), times), batch));
    for (size_t row = 0; row < batch.size(); ++row) lattices[batch[row]] = std::move(found[row]);
  }
  const LatticeScales scales{
      options.graph_scale,
      options.acoustic_scale.value_or(decoder->options().at("acoustic_scale").get<double>())};
  LatticeWriter writer(config, options, source->graph(), scales, model->config.frame_seconds());
  for (size_t i = 0; i < lattices.size(); ++i)
    writer.put(dataset.dataset.utterances[i], keys[i], lattices[i]);
  return writer.finish();
}

namespace {

/// Returns the head of a file in NumPy's format 1.0. It has a multiple of 64 bytes, and the numbers
/// follow.
std::string npy_head(int64_t rows, int64_t columns) {
  constexpr size_t kFixed = 10, kStep = 64;
  std::string about =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  about.append(kStep - 1 - (kFixed + about.size()) % kStep, ' ');
  about += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(about.size() & 0xff);
  head += static_cast<char>(about.size() >> 8);
  return head + about;
}

std::string bytes_of(const at::Tensor& values) {
  const at::Tensor host = values.cpu().contiguous();
  return {static_cast<const char*>(host.const_data_ptr()), static_cast<size_t>(host.nbytes())};
}

}  // namespace

int write_emissions(const Config& config, const std::filesystem::path& folder) {
  require_sizes(config, "rtfx emissions");
  const DeviceScope scope(config.threads, config.device, "device");
  const at::Device device = scope.device();
  Workspace workspace(config);
  workspace.read_audio_files();
  workspace.print_notices();
  const LoadedDataset& dataset = workspace.datasets().front();
  if (dataset.failure) throw std::runtime_error(*dataset.failure);
  const auto model = workspace.model(0, device, config.dtypes.front());
  if (!model->ctc_head) {
    throw UserError(config.models.front().path.string(), "has no CTC head",
                    "name a CTC or hybrid model first");
  }
  // with a single pass, graphs are not worth recording
  RecordedEncoder encoder(model, /*graphs=*/false);
  std::vector<at::Tensor> emissions(dataset.seconds.size());
  for (const auto& batch :
       make_batches(dataset.seconds, config.sort, config.batches.front(), config.protocol.seed)) {
    const Clips clips = clips_of(model->config, dataset, batch);
    RegionTimes times;
    const EncodedBatch encoded = encode_batch(*model, encoder, clips, RegionClock(device), times);
    const at::Tensor lp = scaled_log_probs(*model, encoded.frames, 1);
    for (size_t row = 0; row < batch.size(); ++row)
      emissions[batch[row]] =
          lp[static_cast<int64_t>(row)].narrow(0, 0, encoded.lengths_host[row]).cpu();
  }

  int64_t frames = 0;
  std::string lines, numbers;
  for (size_t i = 0; i < emissions.size(); ++i) {
    const Utterance& utterance = dataset.dataset.utterances[i];
    lines += to_line({{"id", utterance.id},
                      {"frames", emissions[i].size(0)},
                      {"seconds", dataset.seconds[i]},
                      {"text", utterance.text ? json(*utterance.text) : json()}});
    numbers += bytes_of(emissions[i]);
    frames += emissions[i].size(0);
  }
  for (const char* name : {"emissions.npy", "utterances.jsonl"}) set_aside(folder / name);
  write_file(folder / "emissions.npy",
             npy_head(frames, model->config.vocabulary + 1) + std::move(numbers));
  write_file(folder / "utterances.jsonl", lines);
  fmt::print("{}: {}, {:.1f} s, {} frames of {} columns\n", printable(folder.string()),
             counted(static_cast<int64_t>(emissions.size()), "utterance"), dataset.audio_seconds,
             frames, model->config.vocabulary + 1);
  return kOk;
}

}  // namespace rtfx
