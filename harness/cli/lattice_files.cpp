#include "harness/cli/lattice_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "algorithms/shared/wfst/word_lattice.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/journal.h"
#include "harness/run/compiled_biases.h"
#include "harness/run/encoded_batches.h"
#include "harness/run/loaded_inputs.h"
#include "speech/pipeline/pipeline.h"
#include "speech/runtime/device.h"
#include "speech/transcript/formats.h"

namespace rtfx {

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
    std::string key = recording_field(utterance.id);
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
      fmt::print("{} 1 {:.2f} {:.2f} {} {:.3f}\n", key, w.begin * frame_seconds_,
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
  LoadedInputs inputs(config);
  inputs.read_audio_files();
  inputs.print_notices();
  const LoadedDataset& dataset = inputs.datasets().front();
  if (dataset.failure) throw std::runtime_error(*dataset.failure);
  const auto model = inputs.model(0, scope.device(), config.dtypes.front());
  const std::vector<std::string> keys = kaldi_keys(dataset.dataset.utterances);
  decoder->prepare(model, {});
  const CompiledBiases biases =
      compile_biases(*decoder, dataset.dataset.utterances, inputs.normalizer());
  std::vector<WordLattice> lattices(dataset.seconds.size());
  for_each_encoded_batch(inputs, first_group(config), scope.device(),
                         [&](const std::vector<size_t>& batch, const EncodedBatch& encoded) {
                           auto found = source->lattices(biases.with_biases(encoded, batch));
                           for (size_t row = 0; row < batch.size(); ++row)
                             lattices[batch[row]] = std::move(found[row]);
                         });
  const LatticeScales scales{
      options.graph_scale,
      options.acoustic_scale.value_or(decoder->options().at("acoustic_scale").get<double>())};
  LatticeWriter writer(config, options, source->graph(), scales, model->config.frame_seconds());
  for (size_t i = 0; i < lattices.size(); ++i)
    writer.put(dataset.dataset.utterances[i], keys[i], lattices[i]);
  return writer.finish();
}

}  // namespace rtfx
