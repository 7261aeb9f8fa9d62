// A trained model as it was found on disk: its configuration, its tensors, its tokenizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/checkpoint/config.h"
#include "models/checkpoint/state_dict.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

struct Checkpoint {
  ModelConfig config;
  /// On the CPU, in the type that they are stored in. Those of a file are views of it, brought into
  /// memory when they are looked at: AcousticModel::build() copies what it needs.
  StateDict weights;
  std::shared_ptr<const Tokenizer> tokenizer;  // null only for models made by hand
  std::vector<std::string> notices;            // where file and settings disagree
  std::vector<std::string> ignored;            // tensors that inference does not use
  std::string format;                          // "NeMo 2.7.3", "Hugging Face ParakeetForCTC"
  std::vector<std::filesystem::path> files;    // what it was read from
  int64_t parameters = 0;

  /// Only of a model that is timed without its own weights (models/synthetic.h): the encoder's name
  /// and the trained checkpoint that the decoder's frames come from.
  std::string architecture;
  std::shared_ptr<const Checkpoint> stand_in;

  /// "checkpoint", or "synthetic" where the encoder's weights are random.
  std::string weights_origin() const { return stand_in ? "synthetic" : "checkpoint"; }

  /// SHA-256 of the file, or of the names and sums of several. Reads them whole, once.
  const std::string& sha256() const;

  mutable std::string checksum;  // what sha256() found; set beforehand for what has no file
};

}  // namespace rtfx
