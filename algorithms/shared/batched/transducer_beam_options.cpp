#include "algorithms/shared/batched/transducer_beam_options.h"

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/skipping/blank_skipping.h"

namespace rtfx {

const OptionTable<TransducerBeamOptions>& TransducerBeamOptions::table() {
  using O = TransducerBeamOptions;
  static const OptionTable<O> table{{
      option("beam_size", &O::beam_size, "hypotheses that are kept", 1, 1000),
      option("score_norm", &O::score_norm, "rank by score / (tokens + 1)"),
      option("nbest", &O::nbest,
             "hypotheses to return, at most beam_size; more than 1 make an n-best list", 1, 1000),
      mbr_option(&O::mbr),
      option("temperature", &O::temperature, "logits are divided by it", 1e-3, 1e3),
      option("lm", &O::lm, "language model, fused with every label's score", beam_lm_options()),
      option("boost", &O::boost, "phrases whose tokens are made more likely",
             beam_boosting_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
      option("kernels", &O::kernels, "a step as LibTorch operators or as fused kernels",
             {"operators", "fused"}),
      option("loop", &O::loop, "who drives the loop: the host, one graph", {"host", "graph"}),
  }};
  return table;
}

}  // namespace rtfx
