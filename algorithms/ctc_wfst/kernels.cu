#include <cuda_runtime.h>

#include "algorithms/ctc_wfst/kernels.h"
#include "algorithms/ctc_wfst/token_passing.h"
#include "algorithms/cuda_graphs/check.h"

namespace rtfx {
namespace {

constexpr int kThreads = 512;

/// A block of a GPU's threads; a warp expands a token together.
struct DeviceBlock {
  static constexpr int32_t kGroup = 32;

  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ int32_t threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }
  __device__ uint32_t least_of_group(uint32_t value) const { return __reduce_min_sync(~0u, value); }

  template <class T>
  static __device__ T minimum(T* place, T value) {
    return atomicMin(place, value);
  }
  template <class T>
  static __device__ T add(T* place, T value) {
    return atomicAdd(place, value);
  }
  static __device__ PassingKey load(const PassingKey* place) {
    return *static_cast<const volatile PassingKey*>(place);
  }
};

__global__ void __launch_bounds__(kThreads)
    token_passing_kernel(PassingGraph graph, PassingLanes lanes, PassingBatch batch) {
  __shared__ PassingShared shared;
  DeviceBlock block;
  const PassingLane lane = lanes.lane(blockIdx.x);
  TokenPassing<DeviceBlock>(block, graph, lane, batch, shared).run();
}

}  // namespace

void launch_token_passing(const PassingGraph& graph, const PassingLanes& lanes,
                          const PassingBatch& batch, cudaStream_t stream) {
  if (batch.row_count == 0) return;
  const auto blocks = static_cast<unsigned>(lanes.lanes);
  token_passing_kernel<<<blocks, kThreads, 0, stream>>>(graph, lanes, batch);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
