// A `.nemo` archive in memory: its configuration, its tensors, its tokenizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/state_dict.h"
#include "models/tokenizer.h"

namespace rtfx {

struct Checkpoint {
  ModelConfig config;
  StateDict weights;                           // CPU, floating-point tensors as stored
  std::shared_ptr<const Tokenizer> tokenizer;  // null only for models made by hand
  std::vector<std::string> notices;            // where file and YAML disagree, or keys were ignored
  std::string sha256;                          // of the file
  int64_t parameters = 0;

  /// Only of a model that is timed without its own weights (models/synthetic.h): the encoder's name
  /// and the trained checkpoint that the decoder's frames come from.
  std::string architecture;
  std::shared_ptr<const Checkpoint> stand_in;

  /// "checkpoint", or "synthetic" where the encoder's weights are random.
  std::string weights_origin() const { return stand_in ? "synthetic" : "checkpoint"; }

  /// Reads a tar or tar.gz archive: `model_config.yaml`, `model_weights.ckpt` (fp32, fp16 or bf16)
  /// and the SentencePiece model. Tensors decide; where the YAML disagrees a notice says so.
  /// Throws UserError for a missing, truncated or unsupported file, naming the setting.
  static Checkpoint load(const std::filesystem::path& path);
};

}  // namespace rtfx
