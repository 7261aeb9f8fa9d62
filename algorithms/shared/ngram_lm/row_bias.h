// What each row of a batch adds to its tokens beside an n-gram model that serves all: scores of a
// model of its own, many of which stand in one set of tables, and tokens that it must not have.
// algorithms/shared/boosting makes them of phrases and scripts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "algorithms/shared/ngram_lm/ngram_lm.h"

namespace rtfx {

/// R rows; all tensors on one device. A row's states are numbers from its root on, so that a state
/// can be kept and taken up again by another row, or after the tables were laid out anew: 0 is the
/// start. No member waits for the device, and all can be recorded into a graph.
struct RowBias {
  /// Tables of all models. State 0 of the tables is nobody's: it leads back to itself with score 0.
  /// A model's arcs stay among its states, and where they end state 0 follows, which stands for the
  /// row's root. Null: no row has a model.
  std::shared_ptr<const NgramLm> models;
  at::Tensor roots;  // [R] int32, state of the tables; 0 for a row without a model
  /// [R] float32, of beams of transducers: the weight w of a row's model by which blank is rescaled
  /// along with the tokens (rescale_blank() of fusion.h). Undefined: no row has one.
  at::Tensor blank_weights;
  at::Tensor forbidden;  // [R, V] bool; undefined: every row may have all tokens

  bool has_models() const { return models != nullptr; }
  bool has_any() const { return has_models() || forbidden.defined(); }

  at::Tensor initial_states() const;                        // [R] int32
  at::Tensor scores(const at::Tensor& states) const;        // [R, V] float32
  at::Tensor final_scores(const at::Tensor& states) const;  // [R] float32, due at a text's end
  /// Label -1, and every other that is no token, keeps the state. labels: [R] int64.
  at::Tensor next_states(const at::Tensor& states, const at::Tensor& labels) const;

  /// Each row `times` times in a row.
  RowBias repeated(int64_t times) const;
};

}  // namespace rtfx
