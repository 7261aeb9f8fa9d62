#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/decoders/wfst/ctc_wfst/token_passing.h"
#include "algorithms/gpu/cuda_block.cuh"
#include "base/gpu/check.h"
#include "base/gpu/shared_memory.h"

namespace rtfx {
namespace {

/// A block of GPU threads with the members that TokenPassing needs.
template <int32_t kThreads>
struct PassingBlock : CudaBlock<kThreads> {
  static constexpr int32_t kMostThreads = kThreads;
  static constexpr int32_t kHeld = 8;

  __device__ void copy(float* to, const float* from, int32_t count) const {
    for (int32_t i = this->thread(); i < count; i += kThreads)
      __pipeline_memcpy_async(to + i, from + i, sizeof(float));
    __pipeline_commit();
  }
  __device__ void copied() const { __pipeline_wait_prior(0); }

  template <class T>
  static __device__ T minimum(T* address, T value) {
    return atomicMin(address, value);
  }
  template <class T>
  static __device__ T add(T* address, T value) {
    return atomicAdd(address, value);
  }
  static __device__ PassingKey load(const PassingKey* address) {
    return *static_cast<const volatile PassingKey*>(address);
  }
};

/// Runs the whole search. With at most 64 registers per thread, a multiprocessor has room for
/// kThreadsPerProcessor threads.
template <int32_t kThreads>
__global__ void __launch_bounds__(kThreads, kThreadsPerProcessor / kThreads)
    token_passing_kernel(PassingGraph graph, PassingWorkspaces workspaces, PassingBatch batch,
                         bool keeps_frames) {
  __shared__ PassingShared<kThreads> shared;
  extern __shared__ float frames[];
  PassingBlock<kThreads> block;
  const PassingWorkspace workspace = workspaces.workspace(blockIdx.x);
  RowPassing(block, graph, workspace, batch, shared, keeps_frames ? frames : nullptr).run();
}

/// Does one phase for the rows of all workspaces. The phase `begin` takes the rows from `first_row`
/// on.
template <PassingPhase kPhase, int32_t kThreads>
__global__ void __launch_bounds__(kThreads, kThreadsPerProcessor / kThreads)
    token_passing_phase(PassingGraph graph, PassingWorkspaces workspaces, const PassingBatch* batch,
                        PassingProgress* progress, int64_t first_row) {
  __shared__ PassingShared<kThreads> shared;
  PassingBlock<kThreads> block;
  const PassingWorkspace workspace = workspaces.workspace(blockIdx.x);
  const PassingBatch own = *batch;
  PhasePassing passing(block, graph, workspace, own, shared, progress[blockIdx.x]);
  if constexpr (kPhase == PassingPhase::begin) {
    passing.begin(first_row + blockIdx.x);
  } else if constexpr (kPhase == PassingPhase::finish) {
    passing.finish();
  } else {
    passing.template frame_phase<kPhase>();
  }
}

template <int32_t kThreads>
void launch(const PassingGraph& graph, const PassingWorkspaces& workspaces,
            const PassingBatch& batch, unsigned blocks, cudaStream_t stream) {
  // Shared memory holds the log-probabilities of two frames, unless the model has very many tokens.
  const size_t frames = 2 * sizeof(float) * static_cast<size_t>(graph.columns);
  static const int64_t own_bytes =
      own_shared_bytes(reinterpret_cast<const void*>(&token_passing_kernel<kThreads>));
  const bool keeps_frames = own_bytes + static_cast<int64_t>(frames) <= shared_memory().by_default;
  token_passing_kernel<kThreads><<<blocks, kThreads, keeps_frames ? frames : 0, stream>>>(
      graph, workspaces, batch, keeps_frames);
  RTFX_CUDA(cudaGetLastError());
}

/// Returns whether each of `blocks` blocks has a multiprocessor of its own.
bool is_wide(int64_t blocks) {
  static const int processors = [] {
    int device = 0, count = 0;
    RTFX_CUDA(cudaGetDevice(&device));
    RTFX_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
  }();
  return blocks <= processors;
}

struct PhaseOfRows {
  const PassingGraph& graph;
  const PassingWorkspaces& workspaces;
  const PassingBatch* batch;
  PassingProgress* progress;
  int64_t first_row;
  cudaStream_t stream;

  template <PassingPhase kPhase>
  void launch() const {
    if (is_wide(workspaces.workspaces)) {
      launch<kPhase, kWideBlock>();
    } else {
      launch<kPhase, kNarrowBlock>();
    }
  }

 private:
  template <PassingPhase kPhase, int32_t kThreads>
  void launch() const {
    token_passing_phase<kPhase, kThreads>
        <<<static_cast<unsigned>(workspaces.workspaces), kThreads, 0, stream>>>(
            graph, workspaces, batch, progress, first_row);
    RTFX_CUDA(cudaGetLastError());
  }
};

}  // namespace

void launch_token_passing(const PassingGraph& graph, const PassingWorkspaces& workspaces,
                          const PassingBatch& batch, cudaStream_t stream) {
  if (batch.row_count == 0) return;
  const int64_t blocks = std::min<int64_t>(workspaces.workspaces, batch.row_count);
  if (is_wide(blocks)) {
    launch<kWideBlock>(graph, workspaces, batch, static_cast<unsigned>(blocks), stream);
  } else {
    launch<kNarrowBlock>(graph, workspaces, batch, static_cast<unsigned>(blocks), stream);
  }
}

void launch_phase(PassingPhase phase, const PassingGraph& graph,
                  const PassingWorkspaces& workspaces, const PassingBatch* batch,
                  PassingProgress* progress, int64_t first_row, cudaStream_t stream) {
  const PhaseOfRows rows{graph, workspaces, batch, progress, first_row, stream};
  switch (phase) {
    case PassingPhase::begin:
      return rows.launch<PassingPhase::begin>();
    case PassingPhase::choose:
      return rows.launch<PassingPhase::choose>();
    case PassingPhase::bound:
      return rows.launch<PassingPhase::bound>();
    case PassingPhase::expand:
      return rows.launch<PassingPhase::expand>();
    case PassingPhase::follow:
      return rows.launch<PassingPhase::follow>();
    case PassingPhase::reserve:
      return rows.launch<PassingPhase::reserve>();
    case PassingPhase::link:
      return rows.launch<PassingPhase::link>();
    case PassingPhase::keep:
      return rows.launch<PassingPhase::keep>();
    case PassingPhase::finish:
      return rows.launch<PassingPhase::finish>();
  }
}

}  // namespace rtfx
