// A block of a GPU's threads, see thread_block.h.
#pragma once

#include <cstdint>

#include "algorithms/gpu/thread_block.h"

namespace rtfx {

template <int32_t kThreads>
class CudaBlock {
 public:
  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ int32_t threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }

  /// T: up to 8 bytes.
  template <class T, class Op>
  __device__ T all_reduce(T value, const Op& op) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    __shared__ uint64_t of_warps[2][kWarps];
    value = of_warp(value, op);
    // Two buffers, used alternately: a thread may still read one when others write the next.
    const T* values = reinterpret_cast<const T*>(of_warps[buffer_]);
    if (threadIdx.x % kWarpSize == 0)
      reinterpret_cast<T*>(of_warps[buffer_])[threadIdx.x / kWarpSize] = value;
    buffer_ ^= 1;
    __syncthreads();
    T left[kWarps];
#pragma unroll
    for (int32_t warp = 0; warp < kWarps; ++warp) left[warp] = values[warp];
#pragma unroll
    for (int32_t half = kWarps / 2; half > 0; half /= 2) {
#pragma unroll
      for (int32_t warp = 0; warp < half; ++warp) left[warp] = op(left[warp], left[warp + half]);
    }
    return left[0];
  }
  __device__ bool all_reduce(bool value, const Either&) {
    return __syncthreads_or(static_cast<int>(value)) != 0;
  }

  __device__ int32_t exclusive_sum(int32_t value, int32_t& total) {
    __shared__ int32_t of_warps[2][kWarps];
    const int32_t lane = thread() % kWarpSize, warp = thread() / kWarpSize;
    int32_t sum = value;
#pragma unroll
    for (int32_t distance = 1; distance < kWarpSize; distance *= 2) {
      const int32_t below = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += below;
    }
    int32_t* sums = of_warps[buffer_];
    buffer_ ^= 1;
    if (lane == kWarpSize - 1) sums[warp] = sum;
    __syncthreads();
    const int32_t own = lane < kWarps ? sums[lane] : 0;  // of warp `lane`
    total = __reduce_add_sync(~0u, own);
    return __reduce_add_sync(~0u, lane < warp ? own : 0) + sum - value;
  }

 private:
  static constexpr int32_t kWarps = kThreads / kWarpSize;
  static_assert(kThreads % kWarpSize == 0 && kThreads <= 1024 && (kWarps & (kWarps - 1)) == 0);

  template <class T, class Op>
  __device__ static T of_warp(T value, const Op& op) {
#pragma unroll
    for (int32_t distance = kWarpSize / 2; distance > 0; distance /= 2)
      value = op(value, __shfl_xor_sync(~0u, value, distance));
    return value;
  }
  /// The maximum of 64 bits by two instructions for 32 bits, in place of ten shuffles: that of the
  /// upper halves, then that of the lower halves which belong to it.
  __device__ static unsigned long long of_warp(unsigned long long value, const Maximum&) {
    const auto upper = static_cast<uint32_t>(value >> 32);
    const uint32_t greatest = __reduce_max_sync(~0u, upper);
    const uint32_t lower = upper == greatest ? static_cast<uint32_t>(value) : 0;
    return static_cast<unsigned long long>(greatest) << 32 | __reduce_max_sync(~0u, lower);
  }

  int32_t buffer_ = 0;
};

}  // namespace rtfx
