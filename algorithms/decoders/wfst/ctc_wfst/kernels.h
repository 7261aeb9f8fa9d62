// Token passing on a GPU: each block searches utterances one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"

namespace rtfx {

/// Enqueues one block for each row, as far as there are lanes; all pointers are device memory.
/// Nothing is allocated and nothing waits. Throws std::runtime_error when the launch fails.
void launch_token_passing(const PassingGraph& graph, const PassingLanes& lanes,
                          const PassingBatch& batch, cudaStream_t stream);

}  // namespace rtfx
