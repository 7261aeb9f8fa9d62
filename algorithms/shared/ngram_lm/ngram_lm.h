// An n-gram language model with back-off as flat arrays, evaluated for all tokens of many states at
// once: NGPU-LM (Bataev et al., "NGPU-LM: GPU-Accelerated N-Gram Language Model for
// Context-Biasing in Greedy ASR Decoding", 2025), a suffix tree in the form of an acceptor.
//
//   ln p(w | h) = weight of the arc of state h with label w         where the model has n-gram h w
//                 backoff_weight(h) + ln p(w | h without its first token)                otherwise
//
// Searches keep one state per hypothesis:
//
//   states = lm.initial_states(rows);
//   scores = lm.scores(states);                  // [R, V], to be fused with the acoustic model's
//   states = lm.next_states(states, labels);     // rows without a new token keep their state
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx {

/// States: 0 is the empty context, 1 the start of a sentence (<s>), then one state for each n-gram
/// below the highest order, by order. A arcs, S states, V tokens; natural logarithms; contiguous.
///
/// Arcs [0, V) are those of state 0, arc i with label i, tokens that the model does not know
/// included: they lead back to state 0 with the weight of <unk>. The other arcs follow by the order
/// of their n-gram, those of a state side by side and sorted by label.
struct NgramArrays {
  at::Tensor arc_to;          // [A] int32, state after the token: the longest known suffix
  at::Tensor arc_label;       // [A] int32
  at::Tensor arc_weight;      // [A] float32
  at::Tensor state_arcs;      // [S, 2] int32, first arc and the one behind the last; equal if none
  at::Tensor backoff_to;      // [S] int32, state without its first token; 0 for states 0 and 1
  at::Tensor backoff_weight;  // [S] float32, 0 for state 0
  at::Tensor final_weight;  // [S] float32, ln p(</s> | state), back-off already applied; -inf when
                            // the model has no </s>
  at::Tensor context;       // [S] int32, tokens of the context, <s> included: 0 for state 0
};

/// Throws UserError(where) when arrays of this size exceed `limit` bytes (0: none).
void check_lm_size(const std::string& where, int64_t arcs, int64_t states, int64_t limit);

/// Immutable. All tensors are on one device; states and labels must be there too. No member waits
/// for the device, and all can be recorded into a CUDA graph: what they return is newly allocated
/// and written by kernels on the current stream.
class NgramLm {
 public:
  static constexpr int64_t kMaxOrder = kMaxLmOrder;

  /// `order`: of the longest n-grams, 2 to kMaxOrder.
  NgramLm(NgramArrays arrays, int64_t vocabulary, int64_t order);

  /// A copy on another device.
  NgramLm to(at::Device device) const;

  /// [rows] int32: at the start of a sentence.
  at::Tensor initial_states(int64_t rows) const;

  struct Step {
    at::Tensor scores;  // float32, ln p(token | state)
    at::Tensor next;    // int32, state after the token
  };
  /// All tokens of each state. states [R] int32 -> scores and next [R, V].
  Step advance(const at::Tensor& states) const;
  /// The scores of advance() alone, [R, V] float32: a third of the bytes less to write.
  at::Tensor scores(const at::Tensor& states) const;

  /// Some tokens of each state. states [R] int32, labels [R, K] int64 -> scores and next [R, K]. A
  /// label outside [0, V) (blank, -1) has score 0 and keeps the state.
  Step lookup(const at::Tensor& states, const at::Tensor& labels) const;
  /// One token each: states [R] int32, labels [R] int64 -> [R] int32. A label outside [0, V) keeps
  /// the state.
  at::Tensor next_states(const at::Tensor& states, const at::Tensor& labels) const;

  /// ln p(</s> | state), [R] float32. Searches of this project do not use it.
  at::Tensor final_scores(const at::Tensor& states) const;

  const NgramArrays& arrays() const { return arrays_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t order() const { return order_; }
  /// Tokens of the vocabulary that do not occur in the model.
  int64_t unknown_tokens() const;
  /// Memory of the arrays: 12 B an arc and 24 B a state.
  int64_t bytes() const;
  /// For kernels; valid as long as this model.
  NgramView view() const;
  at::Device device() const { return arrays_.arc_to.device(); }

 private:
  NgramArrays arrays_;
  int64_t vocabulary_, order_;
};

}  // namespace rtfx
