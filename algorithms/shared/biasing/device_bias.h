// Contextual biasing of the rows of a batch, as the device reads it. Each row may add scores to its
// tokens by a model of its own, and may forbid tokens. The models of all rows stand in one set of
// tables. algorithms/shared/biasing makes them from phrases and scripts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// R rows; all tensors are on one device. The states of a row are relative to its root, and 0 is
/// the start. So another row can go on from a state, also after the tables were laid out anew. No
/// member waits for the device, and all can be recorded into a graph.
struct DeviceBias {
  /// The tables of all models, null if no row has a model. State 0 of the tables belongs to no row:
  /// it leads back to itself with score 0. The arcs of a model stay among its states. Where they
  /// end they lead to state 0, which stands for the row's root.
  std::shared_ptr<const NgramLm> models;
  at::Tensor roots;  // [R] int32, states of the tables; 0 for a row without a model
  /// [R] float32, for beams of transducers: the weight with which a row's model rescales blank
  /// along with the tokens (rescale_blank() of fusion.h). Undefined if no row has one.
  at::Tensor blank_weights;
  at::Tensor forbidden;  // [R, V] bool; undefined: every row may have all tokens

  bool has_models() const { return models != nullptr; }
  bool has_any() const { return has_models() || forbidden.defined(); }

  at::Tensor initial_states() const;                        // [R] int32
  at::Tensor scores(const at::Tensor& states) const;        // [R, V] float32
  at::Tensor final_scores(const at::Tensor& states) const;  // [R] float32, due at a text's end
  /// Returns the states after labels [R] int64. A label that is no token, such as -1, keeps the
  /// state.
  at::Tensor next_states(const at::Tensor& states, const at::Tensor& labels) const;

  /// Returns each row `times` times, the copies of a row one after the other.
  DeviceBias repeated(int64_t times) const;
};

}  // namespace rtfx
