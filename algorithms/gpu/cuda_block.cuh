// CudaBlock implements ReducingBlock (thread_block.h) with a block of GPU threads.
#pragma once

#include <cstdint>

#include "algorithms/gpu/thread_block.h"
#include "base/gpu/warp.cuh"

namespace rtfx {

/// The kThreads threads of a one-dimensional block. Consecutive reductions use different buffers in
/// shared memory, because a thread may still read the values of the previous reduction. So one
/// barrier per reduction is enough. A kernel keeps one CudaBlock, which remembers the next buffer.
///
/// This class is used because it is faster than CUB's BlockReduce and BlockScan. The list gives its
/// time divided by the time of CUB's faster algorithm, for 128 to 1,024 threads (rtfx_bench_block,
/// H100, 2026-11-26):
///
///   greatest key   0.42 to 0.58
///   least float    0.60 to 0.75
///   sum of floats  0.86 to 0.92
///   any thread     0.19 to 0.21
///   exclusive sum  0.54 to 0.81
template <int32_t kThreads>
class CudaBlock {
 public:
  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ int32_t threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }

  /// Combines the values of all threads, see ReducingBlock. kThreads must be a power of 2.
  template <class T, class Op>
  __device__ T all_reduce(T value, const Op& op) {
    static_assert(sizeof(T) <= sizeof(uint64_t) && (kWarps & (kWarps - 1)) == 0);
    __shared__ uint64_t of_warps[2][kWarps];
    value = of_warp(value, op);
    const T* values = reinterpret_cast<const T*>(of_warps[buffer_]);
    if (threadIdx.x % kWarpSize == 0)
      reinterpret_cast<T*>(of_warps[buffer_])[threadIdx.x / kWarpSize] = value;
    buffer_ ^= 1;
    __syncthreads();
    return of_warp<kWarps>(values[threadIdx.x % kWarps], op);
  }
  __device__ bool all_reduce(bool value, const Either&) {
    return __syncthreads_or(static_cast<int>(value)) != 0;
  }

  __device__ int32_t exclusive_sum(int32_t value, int32_t& total) {
    __shared__ int32_t of_warps[2][kWarps];
    const int32_t lane = thread() % kWarpSize, warp = thread() / kWarpSize;
    const int32_t sum = warp_inclusive_sum(value, lane);
    int32_t* sums = of_warps[buffer_];
    buffer_ ^= 1;
    if (lane == kWarpSize - 1) sums[warp] = sum;
    __syncthreads();
    const int32_t own = lane < kWarps ? sums[lane] : 0;  // sum of warp `lane`
    total = __reduce_add_sync(~0u, own);
    return __reduce_add_sync(~0u, lane < warp ? own : 0) + sum - value;
  }

 private:
  static constexpr int32_t kWarps = kThreads / kWarpSize;
  static_assert(kThreads % kWarpSize == 0 && kThreads <= 1024);

  template <int32_t kLanes = kWarpSize, class T, class Op>
  __device__ static T of_warp(T value, const Op& op) {
    return warp_reduce<kLanes>(value, op);
  }
  /// Returns the maximum over all lanes of the warp. It equals the maximum over kLanes lanes,
  /// because each group of kLanes lanes holds the same values.
  template <int32_t kLanes = kWarpSize>
  __device__ static unsigned long long of_warp(unsigned long long value, const Maximum&) {
    return warp_max(value);
  }

  int32_t buffer_ = 0;
};

static_assert(ReducingBlock<CudaBlock<kWarpSize>>);

}  // namespace rtfx
