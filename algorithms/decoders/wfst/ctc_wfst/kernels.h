// Token passing on a GPU: in one kernel, where each block searches utterances one after the other,
// or with a kernel for each phase of a frame.
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

/// Enqueues one phase, with a block for each workspace: `begin` for the batch's rows from
/// `first_row` on, the others for those that were begun. `batch` and `progress` [workspaces] are
/// device memory. A launch may be recorded in a graph and repeated: it depends on nothing that the
/// host knows but these pointers. Throws std::runtime_error when the launch fails.
void launch_phase(PassingPhase phase, const PassingGraph& graph,
                  const PassingWorkspaces& workspaces, const PassingBatch* batch,
                  PassingProgress* progress, int64_t first_row, cudaStream_t stream);

}  // namespace rtfx
