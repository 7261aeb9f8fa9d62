// Forced alignment: when each token of a given text is said. The result is the most probable path
// that spells the text, through the emissions of a CTC head (ctc_alignment.h) or through the
// lattice of a transducer (transducer_alignment.h).
#pragma once

#include "algorithms/hypotheses.h"
#include "algorithms/shared/confidence/confidence.h"

namespace rtfx {

struct Alignment {
  /// The tokens of the text, the frame at which each begins, TDT's durations, and the natural
  /// logarithm of the path's probability. `nan`: the path has no finite probability, since the
  /// model's output holds a NaN or a band has no path, and the rest means nothing.
  Hypothesis hypothesis;
  /// Runs: for CTC, the frames of each token on the path. Confidence: the probability of the token
  /// itself, for CTC its mean over the run, as torchaudio's merge_tokens() has it.
  TokenEvidence evidence;
};

}  // namespace rtfx
