// The options that the batched beam searches of transducers share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/nbest_risk.h"
#include "algorithms/shared/biasing/biasing.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "base/options.h"

namespace rtfx {

struct TransducerBeamOptions {
  int64_t beam_size = 4;
  bool score_norm = true;  // rank by score / (tokens + 1)
  int64_t nbest = 1;
  std::optional<MbrOptions> mbr;
  double temperature = 1;  // logits are divided by it
  std::optional<LmOptions> lm;
  std::optional<PhraseBoostOptions> boost;  // phrases: see BeamLm::rows
  std::vector<std::string> allowed;         // characters, see allowed_tokens()
  double blank_penalty = 0;                 // subtracted from logits, see blank_penalty.h
  std::optional<double> skip_blank;         // threshold, see blank_skipping.h
  std::string kernels = "operators";        // LibTorch's, or "fused": see fused_search.h
  std::string loop = "host";                // "host", "graph": see loop_driver.h

  static const OptionTable<TransducerBeamOptions>& table();
};

}  // namespace rtfx
