// From the tree of a batch's beams to token sequences: each hypothesis is followed from its last
// column to its first, by a thread of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include "algorithms/hypotheses.h"

namespace rtfx {

struct BeamHypotheses;

/// Writes tokens, frames and (TDT) durations of the hypotheses in slots order[b, n] into `list`
/// ([B, N, capacity] int32 each, capacity no less than any length). order: [B, N] int64. Does not
/// wait for the device.
void backtrace(const BeamHypotheses& beams, const at::Tensor& order, NBest& list);

}  // namespace rtfx
