// Token passing on a GPU: each block searches utterances one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"

namespace rtfx {

/// Threads of a block. A wide block is the quickest for its utterance; where there are more
/// utterances than multiprocessors, two of half the width on each wait less for one another.
inline constexpr int32_t kWideBlock = 1024, kNarrowBlock = 512;

/// Threads for which a multiprocessor has registers, and the most blocks that it runs at a time.
inline constexpr int32_t kThreadsPerProcessor = 1024;
inline constexpr int32_t kBlocksPerProcessor = kThreadsPerProcessor / kNarrowBlock;

/// Enqueues one block for each row, as far as there are workspaces; all pointers are device memory.
/// Nothing is allocated and nothing waits. Throws std::runtime_error when the launch fails.
void launch_token_passing(const PassingGraph& graph, const PassingWorkspaces& workspaces,
                          const PassingBatch& batch, cudaStream_t stream);

}  // namespace rtfx
