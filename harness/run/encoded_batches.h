// Encodes the batches of a group once, for work that measures no encoder.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <vector>

#include "algorithms/decoder.h"
#include "harness/config/plan.h"
#include "harness/run/loaded_inputs.h"

namespace rtfx {

/// Returns the group of the first model, dataset, dtype and batch size, without decoders.
CaseGroup first_group(const Config& config);

/// Encodes each batch of the group in turn, and calls `work` with its utterances and their frames.
/// Makes the batches by the group's rule. The inputs must have read the audio. Throws
/// Interrupted between batches.
void for_each_encoded_batch(
    LoadedInputs& inputs, const CaseGroup& group, at::Device device,
    const std::function<void(const std::vector<size_t>& utterances, EncodedBatch encoded)>& work);

}  // namespace rtfx
