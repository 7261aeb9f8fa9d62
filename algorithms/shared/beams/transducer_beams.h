// The beams of a batch of utterances for a transducer, which the batched searches share. Each
// hypothesis has its states of the prediction network, of the language model and of contextual
// biasing. One step moves the beams and all three states.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/biasing/device_bias.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

/// Shallow fusion as a search uses it; without an n-gram model, `model` is null. Contextual
/// biasing of the rows is added to it. A token that a row forbids is treated as if the joint did
/// not have it.
struct BeamLm {
  const NgramLm* model = nullptr;
  const LmOptions* options = nullptr;
  DeviceBias rows = {};  // B rows

  bool early() const { return model != nullptr && options->pruning == "early"; }
};

/// The E best labels to continue each hypothesis with. [B, K, E] each.
struct Expansions {
  at::Tensor labels;     // int64
  at::Tensor scores;     // score_dtype(), ln p of label and duration, fused
  at::Tensor acoustic;   // score_dtype(), ln p without language model and biasing
  at::Tensor durations;  // int64, frames; undefined for RNN-T
};

/// The step of each slot: the arguments of BeamHypotheses::append(), [B, K] each.
struct Choice {
  at::Tensor parents, labels, scores, durations;
};

/// Tensors keep their addresses and are changed in place. No member waits for the device, and all
/// can be recorded into a graph. B utterances have K slots each. The batch has R = B * K slots;
/// number b * K + k is slot k of utterance b.
class TransducerBeams {
 public:
  /// encoded [B, T', H], projected; lengths [B] int64. `columns`: see BeamHypotheses. All slots
  /// start with the prediction after the start symbol. `of_rnnt` is the rule of an RNN-T model.
  TransducerBeams(const Transducer& transducer, const BeamLm& lm, const at::Tensor& encoded,
                  const at::Tensor& lengths, int64_t beam, int64_t columns,
                  AlignmentRule of_rnnt = AlignmentRule::rnnt);

  /// Returns the probabilities of what may follow each hypothesis at frames [B, K], which are
  /// clamped to the utterance: labels [B, K, V+1], durations [B, K, D]. Logits are divided by
  /// `temperature`. Frames [B, K, W] are W frames of each hypothesis, and the result has W too.
  LogProbs log_probs(const at::Tensor& frames, double temperature) const;

  /// Returns log_probs().labels fused with the language model and contextual biasing, or unchanged
  /// without both. Without a language model, `other` [B, K, V] may hold ln p of another one, which
  /// is fused by the options of BeamLm.
  at::Tensor fused(const LogProbs& next, const at::Tensor& other = {}) const;

  /// Returns the `count` best labels of each hypothesis; for TDT, the best pairs of those labels
  /// and all durations. Labels are chosen by fused scores, or by acoustic ones with early pruning.
  /// A blank of duration 0 moves one frame.
  Expansions expand(const LogProbs& next, const at::Tensor& fused, int64_t count) const;

  /// Chooses the K best candidates of each utterance from scores, labels and (TDT) durations [B, K,
  /// E]. An utterance with no set flag in `open` [B, K] stays unchanged, slot by slot. So its
  /// result does not depend on how long the rest of its batch goes on.
  Choice choose(const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& durations,
                const at::Tensor& open) const;

  /// Call this after hypotheses.append(parents, labels, ...): each slot gets the states of its
  /// parent, moved one step where the label is a token.
  void advance(const at::Tensor& parents, const at::Tensor& labels);

  /// Passes the state between two pieces to `transfer`, the states of contextual biasing first.
  void transfer(StateTransfer& transfer);

  /// Adds the final scores of contextual biasing. Call this once, at the end of the utterances.
  void end();

  /// Calls end() and BeamHypotheses::result().
  Hypotheses result(int64_t nbest, bool score_norm);

  BeamHypotheses hypotheses;
  at::Tensor encoded;                 // [B, T', H]
  at::Tensor lengths;                 // [B, 1] int64
  Transducer::Prediction prediction;  // output [R, H], state of R slots
  at::Tensor lm_states;               // [R] int32; undefined without a language model
  at::Tensor first_slot;              // [B, 1] int64, b * K
  DeviceBias bias;                    // R rows
  at::Tensor bias_states;             // [R] int32; undefined without contextual biasing

 private:
  const Transducer& transducer_;
  BeamLm lm_;
};

}  // namespace rtfx
