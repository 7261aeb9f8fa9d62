// `batch_sizes: "max"`: finds the largest batch that fits into memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "harness/config/plan.h"
#include "harness/run/case_group.h"
#include "harness/run/loaded_inputs.h"

namespace rtfx {

/// Returns the largest number from 1 to `most` for which `fits` is true, to within 1/32; 0 if even
/// 1 does not fit. Halves `most` until a number fits, and then halves the distance to the smallest
/// one that did not fit. Never asks for a number above one that did not fit.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

/// Returns the largest batch size of the group, between 1 and the number of utterances of its
/// dataset. Returns none if audio or model cannot be used, which the run then records as failures.
///
/// On a GPU, a size fits if a whole round of the group runs without an error of memory, in the
/// group's mode and with the check of its results. Other errors are left to the run itself. On a
/// CPU, the process would be killed for lack of memory. There, a size fits if the least memory that
/// the encoder needs is at most half of what the process can get.
///
/// `begin` is called with the runner of each trial, before the runner prepares. Throws Interrupted
/// between batches.
std::optional<int64_t> largest_batch(LoadedInputs& inputs, CaseGroup group, at::Device device,
                                     const std::function<void(CaseGroupRunner&)>& begin);

}  // namespace rtfx
