// Models and datasets of a configuration, loaded once.
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
  /// The reference of each utterance as the scorer writes words; none where it has no reference.
  std::vector<std::optional<std::vector<std::string>>> references;
  std::vector<std::string> notices;  // "a.wav: resampled ...", once for all files
  double audio_seconds = 0;
  std::optional<std::string> failure;  // why the audio cannot be used
  double load_seconds = 0;             // the region `load`: reading, mixing, resampling
};

/// Throws UserError, which names the command that makes the stand-in, where a file with the name of
/// a stand-in is missing.
void require_stand_in(const std::filesystem::path& path);

/// The prompt of the language that the utterance's manifest states; none where it states none, or
/// the model takes no prompt. Throws UserError for a language that the model does not know.
std::optional<int64_t> prompt_of(const PromptConfig& prompts, const Utterance& utterance);

/// The samples of utterances, which read_audio_files() has read, and their prompts. Throws what
/// prompt_of() does.
Clips clips_of(const ModelConfig& model, const LoadedDataset& dataset,
               const std::vector<size_t>& utterances);

class Workspace {
 public:
  /// Reads checkpoints and lists utterances, but reads no audio yet. Throws UserError for all
  /// errors together. The error for a missing stand-in checkpoint names the command that makes it.
  explicit Workspace(const Config& config);

  const Config& config() const { return config_; }
  /// The configuration's scorer.
  const Normalizer& normalizer() const { return *normalizer_; }
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }
  const std::vector<LoadedDataset>& datasets() const { return datasets_; }
  std::vector<ModelKinds> kinds() const;
  /// SHA-256 of each file that a decoder's options name, by path.
  const std::map<std::string, std::string>& decoder_files() const { return decoder_files_; }

  /// Reads all audio into memory and takes the words of the references; a file that cannot be used
  /// is the failure of its dataset. Throws Interrupted between files.
  void read_audio_files();

  /// Tokens of the reference texts per second of their audio, spelled by the model's tokenizer from
  /// the words that the scorer sees; after read_audio_files(). None without references, or where
  /// more than a hundredth of the tokens are unknown ones.
  std::optional<double> reference_tokens_per_second(size_t model, size_t dataset) const;

  /// SHA-256 of the samples of all utterances; after read_audio_files().
  const std::string& audio_sha256(size_t dataset) const;

  /// Puts other utterances with these samples in the place of a dataset's; after
  /// read_audio_files(). They have no references.
  void replace(size_t dataset, std::vector<Utterance> utterances,
               std::vector<std::vector<float>> audio);

  /// Forgets all utterances but those of the shard (harness/run/shard.h); after read_audio_files().
  /// Throws UserError where none is left.
  void keep(const Shard& shard);
  const Shard& shard() const { return shard_; }

  /// The model on a device in a dtype; only the last one asked for stays in memory.
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
