// What searches over a decoding graph take from a batch, and what they make of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/wfst/search.h"

namespace rtfx {

/// [B, T', V+1] float32, contiguous, on the batch's device: acoustic_scale * ln p(k | frame t).
at::Tensor scaled_log_probs(const AcousticModel& model, const EncodedBatch& batch,
                            double acoustic_scale);

/// Tokens and their frames from the paths, score = -cost. `nan`, [B] bool on the host: rows that
/// are marked and empty, as those are that no path led through. On `device`.
Hypotheses wfst_hypotheses(const std::vector<WfstPath>& paths, const at::Tensor& nan,
                           at::Device device);

}  // namespace rtfx
