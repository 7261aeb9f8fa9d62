#include "harness/run/workspace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "base/sha256.h"
#include "harness/config/document.h"
#include "models/load_checkpoint.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

void load_utterance(const Utterance& utterance, const Normalizer& normalizer,
                    LoadedDataset& loaded) {
  Audio audio = read_utterance(utterance);
  for (const std::string& notice : audio.notices) {
    loaded.notices.push_back(fmt::format("{}: {}", utterance.audio.string(), notice));
  }
  loaded.seconds.push_back(audio.seconds());
  loaded.audio_seconds += audio.seconds();
  loaded.audio.push_back(std::move(audio.samples));
  auto& reference = loaded.references.emplace_back();
  if (utterance.text) reference = normalizer.words(*utterance.text);
}

Checkpoint load_model(const ModelSource& source) {
  if (!source.fallback || std::filesystem::exists(source.path))
    return load_checkpoint(source.path, source.att_context_size);
  const std::string& encoder = source.fallback->encoder;
  const std::filesystem::path decoder = source.fallback->decoder();
  if (!std::filesystem::exists(decoder)) {
    throw UserError(source.path.string(),
                    fmt::format("no such file, and neither is its fallback {}",
                                fmt::join(source.fallback->decoders, " or ")),
                    "put one of them there, or name another with --set models.N.path or "
                    "models.N.fallback.decoder");
  }
  Checkpoint stand_in = load_checkpoint(decoder);
  if (source.fallback->prediction == "stateless")
    stand_in = with_stateless_prediction(std::move(stand_in), decoder.string());
  if (const int64_t tokens = source.fallback->vocabulary; tokens > 0)
    stand_in = with_vocabulary(std::move(stand_in), tokens, decoder.string());
  Checkpoint made = synthetic_checkpoint(find_architecture(encoder, "models"), std::move(stand_in),
                                         decoder.string());
  made.notices.insert(
      made.notices.begin(),
      fmt::format("no such file; {} instead: encoder '{}' of random weights, frames "
                  "and words of {}",
                  kSyntheticLabel, encoder, decoder.string()));
  return made;
}

}  // namespace

Workspace::Workspace(const Config& config)
    : config_(config), normalizer_(&find_normalizer(config.scorer, "scorer")) {
  ErrorList errors;
  for (const ModelSource& source : config_.models)
    errors.run([&] { checkpoints_.push_back(load_model(source)); });
  for (const DatasetSource& source : config_.datasets) {
    LoadedDataset loaded;
    errors.run([&] { loaded.dataset = load_dataset(source); });
    const Dataset& dataset = loaded.dataset;
    if (!dataset.fallback.empty()) {
      loaded.notices.push_back(
          fmt::format("{}: no such file; {} instead", source.manifest, dataset.stand_in));
    } else if (!dataset.stand_in.empty()) {
      loaded.notices.push_back(fmt::format("{}: stand-in data: {}", source.id, dataset.stand_in));
    }
    datasets_.push_back(std::move(loaded));
  }
  errors.throw_any();
  for (DecoderSpec& spec : config_.decoders) {
    for_each_path(find_decoder(spec.name, spec.where).options, spec.where, spec.options,
                  [&](const std::string&, nlohmann::json& file) {
                    const auto [entry, is_new] =
                        decoder_files_.try_emplace(file.get<std::string>());
                    if (is_new) entry->second = sha256_file(entry->first);
                  });
  }
}

std::vector<ModelKinds> Workspace::kinds() const {
  std::vector<ModelKinds> all;
  for (const Checkpoint& checkpoint : checkpoints_) all.push_back(checkpoint.config.kinds());
  return all;
}

void Workspace::read_audio_files() {
  for (LoadedDataset& loaded : datasets_) {
    const ScopedRange range(RangeName::load);
    const auto begin = std::chrono::steady_clock::now();
    try {
      for (const Utterance& utterance : loaded.dataset.utterances)
        load_utterance(utterance, *normalizer_, loaded);
    } catch (const UserError& e) {
      loaded.failure = e.what();
    }
    loaded.load_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
}

void Workspace::keep(const Shard& shard) {
  shard_ = shard;
  for (LoadedDataset& loaded : datasets_) {
    if (loaded.failure || shard.whole()) continue;
    LoadedDataset kept;
    for (const size_t i : deal(loaded.seconds, shard.index, shard.count)) {
      kept.dataset.utterances.push_back(std::move(loaded.dataset.utterances[i]));
      kept.audio.push_back(std::move(loaded.audio[i]));
      kept.seconds.push_back(loaded.seconds[i]);
      kept.references.push_back(std::move(loaded.references[i]));
      kept.audio_seconds += loaded.seconds[i];
    }
    if (kept.audio.empty()) {
      throw UserError("--shard " + shard.label(),
                      fmt::format("dataset '{}' has fewer utterances", loaded.dataset.id),
                      "use fewer shards");
    }
    loaded.dataset.utterances = std::move(kept.dataset.utterances);
    loaded.audio = std::move(kept.audio);
    loaded.seconds = std::move(kept.seconds);
    loaded.references = std::move(kept.references);
    loaded.audio_seconds = kept.audio_seconds;
  }
}

std::shared_ptr<const AcousticModel> Workspace::model(size_t index, at::Device device,
                                                      const std::string& dtype) {
  const std::string key = fmt::format("{}/{}/{}", index, device.str(), dtype);
  if (key != current_key_) {
    current_.reset();
    current_ = AcousticModel::build(checkpoints_[index], device, parse_dtypes(dtype, "dtypes"),
                                    parse_encoder_form(config_.encoder, "encoder"));
    current_key_ = key;
  }
  return current_;
}

}  // namespace rtfx
