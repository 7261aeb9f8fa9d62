// An n-gram language model with back-off as flat arrays, which is evaluated for all tokens of many
// states at once. It is a suffix tree in the form of an acceptor, as in NGPU-LM (Bataev et al.,
// "NGPU-LM: GPU-Accelerated N-Gram Language Model for Context-Biasing in Greedy ASR Decoding",
// 2025).
//
//   ln p(w | h) = weight of the arc of state h with label w         if the model has n-gram h w
//                 backoff_weight(h) + ln p(w | h without its first token)             otherwise
//
// A search keeps one state for each hypothesis:
//
//   states = lm.initial_states(rows);
//   scores = lm.scores(states);                  // [R, V], to be fused with acoustic scores
//   states = lm.next_states(states, labels);     // rows without a new token keep their state
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx {

/// A arcs, S states, V tokens. All arrays are contiguous, and weights are natural logarithms. State
/// 0 is the empty context, and state 1 is the start of a sentence (<s>). One state follows for each
/// n-gram below the highest order, by order.
///
/// Arcs [0, V) belong to state 0, and arc i has label i. Tokens that the model does not know have
/// arcs as well, which lead back to state 0 with the weight of <unk>. The other arcs follow by the
/// order of their n-gram. The arcs of a state are neighbours and sorted by label.
struct NgramArrays {
  at::Tensor arc_to;          // [A] int32, state after the token: the longest known suffix
  at::Tensor arc_label;       // [A] int32
  at::Tensor arc_weight;      // [A] float32
  at::Tensor state_arcs;      // [S, 2] int32, begin and end of the state's arcs
  at::Tensor backoff_to;      // [S] int32, state without its first token; 0 for states 0 and 1
  at::Tensor backoff_weight;  // [S] float32, 0 for state 0
  at::Tensor final_weight;  // [S] float32, ln p(</s> | state), back-off already applied; -inf when
                            // the model has no </s>
  at::Tensor context;       // [S] int32, tokens of the context, <s> included: 0 for state 0
};

/// Throws UserError(where) if arrays of this size exceed `limit` bytes (0: no limit).
void check_lm_size(const std::string& where, int64_t arcs, int64_t states, int64_t limit);

/// Immutable. All tensors are on one device, and states and labels must be there too. The members
/// that take states return new tensors, which kernels on the current stream write. They do not wait
/// for the device and can be recorded into a graph.
class NgramLm {
 public:
  static constexpr int64_t kMaxOrder = kMaxLmOrder;

  /// `order`: tokens of the longest n-grams, 2 to kMaxOrder.
  NgramLm(NgramArrays arrays, int64_t vocabulary, int64_t order);

  /// Returns a copy on another device.
  NgramLm to(at::Device device) const;

  /// Returns states at the start of a sentence, [rows] int32.
  at::Tensor initial_states(int64_t rows) const;

  struct Step {
    at::Tensor scores;  // float32, ln p(token | state)
    at::Tensor next;    // int32, state after the token
  };
  /// Scores all tokens of each state. states [R] int32 -> scores and next [R, V].
  Step advance(const at::Tensor& states) const;
  /// Returns the scores of advance() alone, [R, V] float32, and so writes half as many bytes.
  at::Tensor scores(const at::Tensor& states) const;

  /// Scores some tokens of each state. states [R] int32, labels [R, K] int64 -> scores and next [R,
  /// K]. A label outside [0, V), such as blank or -1, has score 0 and keeps the state.
  Step lookup(const at::Tensor& states, const at::Tensor& labels) const;
  /// Moves each state by one token: states [R] int32, labels [R] int64 -> [R] int32. A label
  /// outside [0, V) keeps the state.
  at::Tensor next_states(const at::Tensor& states, const at::Tensor& labels) const;

  /// Returns ln p(</s> | state), [R] float32.
  at::Tensor final_scores(const at::Tensor& states) const;

  /// Returns the state after one back-off, after two, and so on, [S, order - 2] int32: 0 from the
  /// empty context on. Kernels on the current stream write it.
  at::Tensor shorter_contexts() const;

  const NgramArrays& arrays() const { return arrays_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t order() const { return order_; }
  /// Counts the tokens of the vocabulary that do not occur in the model. Waits for the device.
  int64_t unknown_tokens() const;
  /// Returns the memory of the arrays: 12 bytes for an arc and 24 bytes for a state.
  int64_t bytes() const;
  /// Returns pointers for kernels, which are valid as long as this model.
  NgramView view() const;
  at::Device device() const { return arrays_.arc_to.device(); }

 private:
  NgramArrays arrays_;
  int64_t vocabulary_, order_;
};

}  // namespace rtfx
