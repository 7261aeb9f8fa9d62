// How close a greedy decision was: tells a numerical tie from a defect when two results differ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "algorithms/hypotheses.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// Smallest margin (best minus second-best logit; for TDT of the duration outputs too) among the
/// decisions that led from token `index - 1` of `baseline` to its token `index`, or to the end of
/// the utterance when `index` is its size. A result that first differs from the baseline at that
/// token is a numerical tie if the margin is within the rounding of the logits.
///
/// baseline: of a transducer decoder. frames: [T', D], the valid encoder frames of the utterance in
/// the model's dtype, on its device. Waits for the device. nullopt for models without a transducer.
std::optional<double> decision_margin(const AcousticModel& model, const at::Tensor& frames,
                                      const Hypothesis& baseline, size_t index);

}  // namespace rtfx
