// Tensors as the plain pointers that phases take (arrays.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/fused_beam/arrays.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/row_bias.h"

namespace rtfx::fused_beam {

/// Address of a tensor's values, null for an undefined one.
template <class T>
T* data(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<T>() : nullptr;
}

/// A tensor of the model's dtype; it must be contiguous.
Elements elements(const at::Tensor& t);

/// frames: of the utterances, [B] int64.
Beams view_of(const BeamHypotheses& hypotheses, const at::Tensor& frames);

/// states, own_states [R] int32; bias: of R rows. No fusion with a model that is not there, or that
/// would change nothing.
Fusion fusion_of(const NgramLm* lm, const LmOptions* options, const at::Tensor& states,
                 const RowBias& bias, const at::Tensor& own_states);

}  // namespace rtfx::fused_beam
