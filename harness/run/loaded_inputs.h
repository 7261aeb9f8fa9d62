// Loads the models and datasets of a configuration once.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/audio.h"
#include "datasets/dataset.h"
#include "harness/config/config.h"
#include "harness/config/plan.h"
#include "harness/run/shard.h"
#include "harness/scoring/normalize.h"
#include "models/acoustic_model.h"
#include "speech/pipeline/pipeline.h"

namespace rtfx {

struct LoadedDataset {
  Dataset dataset;
  std::vector<std::vector<float>> audio;  // samples of each utterance, 16 kHz; empty until read
  std::vector<double> seconds;            // of each utterance, by its samples
  /// The words of each utterance's reference as the scorer writes them; none for utterances without
  /// a reference.
  std::vector<std::optional<std::vector<std::string>>> references;
  std::vector<std::string> notices;  // such as "a.wav: resampled ...", once for all files
  double audio_seconds = 0;
  std::optional<std::string> failure;  // why the audio cannot be used
  double load_seconds = 0;             // the region `load`: reading, mixing, resampling
};

/// Throws UserError if `path` is the missing file of a stand-in. The error names the command that
/// makes the stand-in.
void require_stand_in(const std::filesystem::path& path);

/// Returns the prompt of the language that the utterance's manifest states. Returns none if it
/// states no language, or if the model takes no prompt. Throws UserError for a language that the
/// model does not know.
std::optional<int64_t> prompt_of(const PromptConfig& prompts, const Utterance& utterance);

/// Returns the samples of utterances, which read_audio_files() has read, and their prompts. Throws
/// what prompt_of() throws.
Clips clips_of(const ModelConfig& model, const LoadedDataset& dataset,
               const std::vector<size_t>& utterances);

class LoadedInputs {
 public:
  /// Reads checkpoints and lists utterances, but reads no audio yet. Throws UserError for all
  /// errors together. The error for a missing stand-in checkpoint names the command that makes it.
  explicit LoadedInputs(const Config& config);

  const Config& config() const { return config_; }
  /// Returns the normaliser of the configuration's scorer.
  const Normalizer& normalizer() const { return *normalizer_; }
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }
  const std::vector<LoadedDataset>& datasets() const { return datasets_; }
  std::vector<ModelKinds> kinds() const;
  /// SHA-256 of each file that a decoder's options name, by path.
  const std::map<std::string, std::string>& decoder_files() const { return decoder_files_; }

  /// Reads all audio into memory, and takes the words of the references. A file that cannot be used
  /// makes its dataset fail. Throws Interrupted between files.
  void read_audio_files();

  /// Prints notices about the models and, after read_audio_files(), about the audio. Prints the
  /// first five notices of each dataset.
  void print_notices() const;

  /// Returns the tokens of the reference texts per second of their audio, after read_audio_files().
  /// The model's tokenizer spells the words that the scorer sees. Returns none without references,
  /// or if more than a hundredth of the tokens are unknown ones.
  std::optional<double> reference_tokens_per_second(size_t model, size_t dataset) const;

  /// Returns the seconds of the utterances that have a reference.
  double reference_seconds(size_t dataset) const;

  /// Returns the SHA-256 of the samples of all utterances, after read_audio_files().
  const std::string& audio_sha256(size_t dataset) const;

  /// Replaces the utterances and samples of a dataset, after read_audio_files(). The new utterances
  /// have no references.
  void replace(size_t dataset, std::vector<Utterance> utterances,
               std::vector<std::vector<float>> audio);

  /// Keeps only the utterances of the shard (harness/run/shard.h), after read_audio_files(). Throws
  /// UserError if none is left.
  void keep(const Shard& shard);
  const Shard& shard() const { return shard_; }

  /// Returns the model on a device in a dtype. Only the model that was asked for last stays in
  /// memory.
  std::shared_ptr<const AcousticModel> model(size_t index, at::Device device,
                                             const std::string& dtype);

 private:
  Config config_;
  const Normalizer* normalizer_;
  std::vector<Checkpoint> checkpoints_;
  std::vector<LoadedDataset> datasets_;
  std::map<std::string, std::string> decoder_files_;
  Shard shard_;
  mutable std::map<std::pair<size_t, size_t>, std::optional<double>> reference_tokens_;
  mutable std::map<size_t, std::string> audio_sha256_;
  std::string current_key_;
  std::shared_ptr<const AcousticModel> current_;
};

}  // namespace rtfx
