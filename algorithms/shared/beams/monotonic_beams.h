// The beams of a search with at most one token per frame, which modified_beam_search and
// transducer_wfst share. modified_beam_search.h states the rule of a step, and how TDT jumps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "algorithms/shared/beams/transducer_beams.h"

namespace rtfx {

/// Tensors keep their addresses and are changed in place. Only piece() waits for the device. The
/// other members can be recorded into a graph.
class MonotonicBeams {
 public:
  /// `start` has the rule `monotonic`, or that of TDT. Logits are divided by `temperature`.
  MonotonicBeams(TransducerBeams start, double temperature);
  virtual ~MonotonicBeams() = default;
  MonotonicBeams(MonotonicBeams&&) = default;

  /// Gives a label to each hypothesis at the earliest frame of its utterance.
  virtual void step();

  /// Merges finished texts of TDT and adds final scores. Call this once, when no flag of `open` is
  /// set and the utterances end.
  virtual void end();

  /// Passes the state between two pieces to `transfer`.
  virtual void transfer(StateTransfer& transfer) { beams.transfer(transfer); }

  /// Calls end(), and returns the best hypotheses. See BeamHypotheses::result().
  Hypotheses result(int64_t nbest, bool score_norm);

  /// Searches the frames of a piece on from `carried`, and replaces that. See
  /// BeamSearch::search_piece(). Waits for the device once per step, and to read the piece.
  std::vector<RowPiece> piece(const EncodedBatch& batch, bool last, RowState& carried,
                              HostReads& reads);

  TransducerBeams beams;
  at::Tensor open;  // [B, K] bool: the hypothesis gets a label in the next step

 protected:
  /// Chooses each utterance's K best candidates and moves the beams by a label. `fused` [B, K, V+1]
  /// has the scores of the labels: see TransducerBeams::expand().
  Choice move(const LogProbs& next, const at::Tensor& fused);

  double temperature_;

 private:
  void refresh();
};

}  // namespace rtfx
