// Token passing on a GPU: each block searches utterances one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"

namespace rtfx {

/// Enqueues one block for each row, but no more than there are lanes, since each block works in
/// one. All pointers are device memory. Nothing is allocated and nothing waits. Throws
/// std::runtime_error when the launch fails.
void launch_token_passing(const PassingGraph& graph, const PassingLanes& lanes,
                          const PassingBatch& batch, cudaStream_t stream);

}  // namespace rtfx
