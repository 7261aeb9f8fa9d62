// Forced alignment finds when each token of a given text is said. The result is the most probable
// path that spells the text, through the emissions of a CTC head (ctc_alignment.h) or through the
// lattice of a transducer (transducer_alignment.h).
#pragma once

#include "algorithms/hypotheses.h"
#include "algorithms/shared/confidence/confidence.h"

namespace rtfx {

struct Alignment {
  /// The tokens of the text, the frame at which each begins, TDT's durations, and the natural
  /// logarithm of the path's probability. If `nan` is set, the path has no finite probability: the
  /// model's output holds a NaN, or a band has no path. The other members then mean nothing.
  Hypothesis hypothesis;
  /// `runs` is the number of frames of each token on the path of a CTC head. `confidence` is the
  /// probability of each token. With a CTC head it is the mean over the token's run, as
  /// torchaudio's merge_tokens() computes it.
  TokenEvidence evidence;
};

}  // namespace rtfx
