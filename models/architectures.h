// The encoders of published checkpoints, so that micro-benchmarks can time them without weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"

namespace rtfx {

struct Architecture {
  std::string name;
  int64_t mel_bins = 80;
  EncoderConfig encoder;
};

/// Returns parakeet-1.1b, parakeet-0.6b (CTC and RNN-T), parakeet-0.6b-v2 (TDT v2 and v3),
/// fastconformer-large, conformer-{small,medium,large,ctc-large} (4x sub-sampling), and tiny, for
/// trials.
std::vector<std::string> architecture_names();

/// Returns the architecture of that name. Throws UserError with the nearest name where there is
/// none. `where` is a JSON pointer.
const Architecture& find_architecture(std::string_view name, std::string_view where);

/// Returns random weights for the encoder that `config` describes. Every call returns equal
/// weights.
StateDict random_encoder(const ModelConfig& config);

}  // namespace rtfx
