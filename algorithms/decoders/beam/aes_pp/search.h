// The search of aes_pp.h over one batch, as segments for Loops: while any utterance is `active`,
// start_frame() at the next frame, expand() while any hypothesis is `expanding`, finish_frame().
#pragma once

#include <ATen/core/Tensor.h>

#include "algorithms/decoders/beam/aes_pp/aes_pp.h"

namespace rtfx {

/// B utterances have K slots each, and E = K + expansion_beta. Tensors keep their addresses and are
/// changed in place. No member waits for the device.
class AesPp::Search {
 public:
  /// encoded [B, T', H], projected; lengths [B] int64. The references must outlive this object.
  Search(const Options& options, const Transducer& transducer, const BeamLm& lm,
         const at::Tensor& encoded, const at::Tensor& lengths);

  void start_frame();
  void expand();
  void finish_frame();
  Hypotheses result();

  /// Passes the state between two frames to `walk`.
  void walk(StateWalk walk) { beams_.walk(walk); }
  void end() { beams_.end(); }
  BeamHypotheses& hypotheses() { return beams_.hypotheses; }

  at::Tensor active;     // [B, 1] bool: utterances with a frame left
  at::Tensor expanding;  // [B, K] bool: hypotheses that must be expanded at this frame

 private:
  void evaluate_joint();
  void prefix_search();
  at::Tensor held(const Expansions& all) const;
  at::Tensor merged(const at::Tensor& scores, const Expansions& all) const;

  const Options& options_;
  const Transducer& transducer_;
  const bool tdt_, early_;
  int64_t zero_ = -1, shortest_ = -1;  // TDT: indices of duration 0 and of the smallest one above

  TransducerBeams beams_;
  at::Tensor frame_;  // [1] int64, t
  at::Tensor step_;   // [1] int64, number of expansions at this frame so far
  at::Tensor open_;   // [B, K] bool: hypotheses at frame t without a blank
  LogProbs next_;     // probabilities of what may follow each hypothesis at frame t
  at::Tensor fused_;  // [B, K, V+1], next_.labels with the language model
};

}  // namespace rtfx
