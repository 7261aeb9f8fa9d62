#include "harness/run/loaded_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/notices.h"
#include "base/nvtx.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "datasets/audio.h"
#include "harness/config/document.h"
#include "models/load_checkpoint.h"
#include "models/tokenizers/spelling.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

void load_utterance(const Utterance& utterance, const Normalizer& normalizer, LoadedDataset& loaded,
                    Notices& notices) {
  Audio audio = read_utterance(utterance);
  for (const std::string& notice : audio.notices) notices.add(utterance.audio.string(), notice);
  loaded.seconds.push_back(audio.seconds());
  loaded.audio_seconds += audio.seconds();
  loaded.audio.push_back(std::move(audio.samples));
  auto& reference = loaded.references.emplace_back();
  if (utterance.text) reference = normalizer.words(*utterance.text);
}

/// Returns the shape in a stand-in's file name: "parakeet-rnnt-0.6b" for "standin-parakeet-
/// rnnt-0.6b.nemo", empty for a small stand-in such as "standin256-rnnt.nemo". None for other
/// names.
std::optional<std::string> stand_in_shape(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  constexpr std::string_view kLarge = "standin-", kSmall = "standin256";
  if (path.extension() != ".nemo") return std::nullopt;
  if (name.starts_with(kSmall)) return "";
  return name.starts_with(kLarge) ? std::optional(name.substr(kLarge.size())) : std::nullopt;
}

Checkpoint load_model(const ModelSource& source) {
  require_stand_in(source.path);
  Checkpoint checkpoint = load_checkpoint(source.path, source.att_context_size);
  if (!source.language.empty())
    select_language(checkpoint.config, source.language, source.path.string());
  return checkpoint;
}

/// Adds an error for each language of utterances that the model does not know. Adds one if the
/// model needs languages that are not stated.
void check_languages(const PromptConfig& prompt, const Dataset& dataset, ErrorList& errors) {
  if (prompt.count == 0) return;
  std::set<std::optional<std::string>> seen;
  for (const Utterance& utterance : dataset.utterances) {
    if (!seen.insert(utterance.language).second) continue;
    errors.run([&] { prompt.or_standard(prompt_of(prompt, utterance), utterance.where); });
  }
}

}  // namespace

void require_stand_in(const std::filesystem::path& path) {
  const auto shape = stand_in_shape(path);
  if (!shape || std::filesystem::exists(path)) return;
  throw UserError(path.string(), "no such file",
                  fmt::format("`scripts/stand_ins.sh{}{}` makes this stand-in; or name another "
                              "checkpoint with --set models.N.path=FILE",
                              shape->empty() ? "" : " ", *shape));
}

std::optional<int64_t> prompt_of(const PromptConfig& prompts, const Utterance& utterance) {
  if (prompts.count == 0 || !utterance.language) return std::nullopt;
  return prompts.of(*utterance.language, utterance.where);
}

Clips clips_of(const ModelConfig& model, const LoadedDataset& dataset,
               const std::vector<size_t>& utterances) {
  Clips clips;
  for (const size_t i : utterances)
    clips.emplace_back(dataset.audio[i], prompt_of(model.prompt, dataset.dataset.utterances[i]));
  return clips;
}

LoadedInputs::LoadedInputs(const Config& config)
    : config_(config), normalizer_(&find_normalizer(config.scorer, "scorer")) {
  ErrorList errors;
  for (const ModelSource& source : config_.models)
    errors.run([&] { checkpoints_.push_back(load_model(source)); });
  for (const DatasetSource& source : config_.datasets) {
    LoadedDataset loaded;
    errors.run([&] { loaded.dataset = load_dataset(source); });
    if (const std::string& what = loaded.dataset.stand_in; !what.empty())
      loaded.notices.push_back(fmt::format("{}: stand-in data: {}", source.id, what));
    for (const std::string& notice : loaded.dataset.notices) loaded.notices.push_back(notice);
    datasets_.push_back(std::move(loaded));
  }
  for (const Checkpoint& checkpoint : checkpoints_)
    for (const LoadedDataset& loaded : datasets_)
      check_languages(checkpoint.config.prompt, loaded.dataset, errors);
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

std::vector<ModelKinds> LoadedInputs::kinds() const {
  std::vector<ModelKinds> all;
  for (const Checkpoint& checkpoint : checkpoints_) all.push_back(checkpoint.config.kinds());
  return all;
}

void LoadedInputs::read_audio_files() {
  for (LoadedDataset& loaded : datasets_) {
    const ScopedRange range(RangeName::load);
    const auto begin = std::chrono::steady_clock::now();
    Notices notices;
    try {
      for (const Utterance& utterance : loaded.dataset.utterances) {
        check_interrupt();
        load_utterance(utterance, *normalizer_, loaded, notices);
      }
    } catch (const UserError& e) {
      loaded.failure = e.what();
    }
    for (std::string& line : notices.lines()) loaded.notices.push_back(std::move(line));
    loaded.load_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
}

void LoadedInputs::print_notices() const {
  for (size_t i = 0; i < checkpoints_.size(); ++i) {
    for (const std::string& notice : checkpoints_[i].notices)
      print_message("rtfx: notice: {}: {}\n", printable(config_.models[i].path.string()),
                    printable(notice));
  }
  constexpr size_t kShown = 5;
  for (const LoadedDataset& dataset : datasets_) {
    for (size_t i = 0; i < std::min(kShown, dataset.notices.size()); ++i)
      print_message("rtfx: notice: {}\n", printable(dataset.notices[i]));
    if (dataset.notices.size() > kShown) {
      print_message("rtfx: notice: ... and {} more like these\n", dataset.notices.size() - kShown);
    }
  }
}

std::optional<double> LoadedInputs::reference_tokens_per_second(size_t model,
                                                                size_t dataset) const {
  const auto [found, is_new] = reference_tokens_.try_emplace({model, dataset});
  if (!is_new) return found->second;
  constexpr double kMostUnknown = 0.01;
  const Tokenizer& tokenizer = *checkpoints_[model].tokenizer;
  const Speller spell(tokenizer);
  const LoadedDataset& loaded = datasets_[dataset];
  double tokens = 0, unknown = 0, seconds = 0;
  for (size_t i = 0; i < loaded.references.size(); ++i) {
    const auto& words = loaded.references[i];
    if (!words) continue;
    seconds += loaded.seconds[i];
    // Counts word by word, so that a word which no tokens spell leaves the others countable.
    for (const std::string& word : *words) {
      const std::vector<int32_t> ids = spell(word);
      tokens += static_cast<double>(std::max<size_t>(1, ids.size()));
      unknown +=
          ids.empty() ? 1 : static_cast<double>(std::ranges::count(ids, tokenizer.unknown()));
    }
  }
  if (seconds > 0 && tokens > 0 && unknown <= kMostUnknown * tokens)
    found->second = tokens / seconds;
  return found->second;
}

double LoadedInputs::reference_seconds(size_t dataset) const {
  const LoadedDataset& loaded = datasets_[dataset];
  double seconds = 0;
  for (size_t i = 0; i < loaded.references.size(); ++i) {
    if (loaded.references[i]) seconds += loaded.seconds[i];
  }
  return seconds;
}

const std::string& LoadedInputs::audio_sha256(size_t dataset) const {
  const auto [found, is_new] = audio_sha256_.try_emplace(dataset);
  if (!is_new) return found->second;
  std::string checksums;
  for (const std::vector<float>& samples : datasets_[dataset].audio) {
    checksums += sha256(
        {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof samples.front()});
  }
  return found->second = sha256(checksums);
}

void LoadedInputs::replace(size_t dataset, std::vector<Utterance> utterances,
                           std::vector<std::vector<float>> audio) {
  LoadedDataset& loaded = datasets_[dataset];
  reference_tokens_.clear();
  audio_sha256_.clear();
  loaded.dataset.utterances = std::move(utterances);
  loaded.audio = std::move(audio);
  loaded.references.assign(loaded.audio.size(), std::nullopt);
  loaded.seconds.clear();
  loaded.audio_seconds = 0;
  for (const std::vector<float>& samples : loaded.audio) {
    loaded.seconds.push_back(static_cast<double>(samples.size()) / kSampleRate);
    loaded.audio_seconds += loaded.seconds.back();
  }
}

void LoadedInputs::keep(const Shard& shard) {
  shard_ = shard;
  reference_tokens_.clear();
  audio_sha256_.clear();
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

std::shared_ptr<const AcousticModel> LoadedInputs::model(size_t index, at::Device device,
                                                         const std::string& dtype) {
  const std::string key = fmt::format("{}/{}/{}", index, device.str(), dtype);
  if (key != current_key_) {
    current_.reset();
    current_key_.clear();  // if the next model fails, none is in memory
    current_ = AcousticModel::build(checkpoints_[index], device, parse_dtypes(dtype, "dtypes"),
                                    parse_encoder_form(config_.encoder, "encoder"));
    current_key_ = key;
  }
  return current_;
}

}  // namespace rtfx
