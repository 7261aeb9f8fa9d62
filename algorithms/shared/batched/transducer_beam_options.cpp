#include "algorithms/shared/batched/transducer_beam_options.h"

#include "algorithms/blank_penalty.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/skipping/blank_skipping.h"

namespace rtfx {

const OptionTable<TransducerBeamOptions>& TransducerBeamOptions::table() {
  using O = TransducerBeamOptions;
  static const OptionTable<O> table{{
      option("beam_size", &O::beam_size, kTransducerBeamSizeHelp, 1, 1000),
      option("score_norm", &O::score_norm, kScoreNormHelp),
      option("nbest", &O::nbest, kNbestHelp, 1, 1000),
      mbr_option(&O::mbr),
      option("temperature", &O::temperature, kTemperatureHelp, 1e-3, 1e3),
      option("lm", &O::lm,
             "N-gram language model over tokens, which is fused with the scores of all labels "
             "(shallow fusion).",
             beam_lm_options()),
      option("boost", &O::boost, kBoostHelp, beam_phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
      option("kernels", &O::kernels,
             "Implementation of a search step. `operators`: operators of LibTorch. `fused`: a few "
             "fused kernels, with equal results up to rounding.",
             {"operators", "fused"}),
      option("loop", &O::loop, kLoopHelp, {"host", "graph"}),
  }};
  return table;
}

}  // namespace rtfx
