// What batched beam searches of transducers (alsd_pp, aes_pp) share: the beams of a batch with the
// prediction network's and the language model's state of each hypothesis, and one step of all
// three.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/row_bias.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

/// Shallow fusion as a search uses it; `model` null: none. What rows add to their own tokens comes
/// on top, and what they must not have is as if the joint had none.
struct BeamLm {
  const NgramLm* model = nullptr;
  const LmOptions* options = nullptr;
  RowBias rows = {};  // of B

  bool early() const { return model != nullptr && options->pruning == "early"; }
};

/// Labels to continue hypotheses with. [B, K, E] each.
struct Expansions {
  at::Tensor labels;     // int64
  at::Tensor scores;     // float32, ln p of label and duration, fused
  at::Tensor acoustic;   // float32, the same without the language model
  at::Tensor durations;  // int64, frames; undefined for RNN-T
};

/// What each slot takes: [B, K] each, as BeamHypotheses::append wants it.
struct Choice {
  at::Tensor parents, labels, scores, durations;
};

/// Tensors keep their addresses and are changed in place. No member waits for the device, and all
/// can be recorded into a graph. B utterances of K slots each; R = B * K slots of the batch, of
/// which number b * K + k is slot k of utterance b.
class TransducerBeams {
 public:
  /// encoded [B, T', H], projected; lengths [B] int64. `columns`: see BeamHypotheses. All slots
  /// start with the prediction after the start symbol.
  TransducerBeams(const Transducer& transducer, const BeamLm& lm, const at::Tensor& encoded,
                  const at::Tensor& lengths, int64_t beam, int64_t columns);

  /// What may follow each hypothesis at frames [B, K] (clamped to the utterance): labels
  /// [B, K, V+1], durations [B, K, D]. Logits are divided by `temperature`.
  LogProbs log_probs(const at::Tensor& frames, double temperature) const;

  /// log_probs().labels fused with the language model and with the rows' own models; as they are
  /// without any.
  at::Tensor fused(const LogProbs& next) const;

  /// The `count` best labels of each hypothesis, for TDT the best pairs of those labels and all
  /// durations: by fused scores, or by acoustic ones with early pruning. A blank of duration 0
  /// moves one frame.
  Expansions expand(const LogProbs& next, const at::Tensor& fused, int64_t count) const;

  /// The K best of the candidates of each utterance: scores, labels and (TDT) durations [B, K, E].
  /// An utterance with no set flag in `open` [B, K] stays as it is, slot by slot, so that its
  /// result does not depend on how long the others of its batch go on.
  Choice choose(const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& durations,
                const at::Tensor& open) const;

  /// After hypotheses.append(parents, labels, ...): takes each slot's states from its parent, and
  /// one step further where the label is a token.
  void advance(const at::Tensor& parents, const at::Tensor& labels);

  /// For searches in pieces: first the states of the rows' own models.
  void walk(StateWalk& walk);

  /// Adds what the rows' own models want at the end of a text: to be called once.
  void end();

  /// See BeamHypotheses::result; calls end().
  Hypotheses result(int64_t nbest, bool score_norm);

  BeamHypotheses hypotheses;
  at::Tensor encoded;                 // [B, T', H]
  at::Tensor lengths;                 // [B, 1] int64
  Transducer::Prediction prediction;  // output [R, H], state of R slots
  at::Tensor lm_states;               // [R] int32; undefined without a language model
  at::Tensor first_slot;              // [B, 1] int64, b * K
  RowBias bias;                       // of R rows
  at::Tensor bias_states;             // [R] int32; undefined without models of rows

 private:
  const Transducer& transducer_;
  BeamLm lm_;
};

}  // namespace rtfx
