// `batch_sizes: "max"`: the largest batch that fits.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

#include "harness/config/plan.h"
#include "harness/run/workspace.h"

namespace rtfx {

/// The largest of 1 to `most` for which `fits` is true, within 1/32; 0 where not even 1 is. Halves
/// `most` until something fits, then the distance to what did not. What is larger than something
/// that does not fit is not asked for.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

/// Utterances in a batch of the group, at most those of its dataset and at least 1. On a GPU a size
/// fits where a whole round of the group, in its mode and with the check of its results, runs
/// without an error of memory; other errors are left to the run itself. On a CPU, where too much
/// memory ends the process, half of what it can get must be enough for what the encoder is reckoned
/// to need at least. Throws Interrupted between batches.
int64_t largest_batch(Workspace& workspace, CaseGroup group, at::Device device);

}  // namespace rtfx
