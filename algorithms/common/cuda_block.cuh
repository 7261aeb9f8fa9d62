// A block of a GPU's threads, see thread_block.h.
#pragma once

#include <cstdint>

namespace rtfx {

template <int32_t kThreads>
class CudaBlock {
 public:
  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ int32_t threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }

  /// Values of up to 8 bytes.
  template <class T, class Op>
  __device__ T all(T value, const Op& op) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    __shared__ uint64_t of_warps[2][kWarps];
#pragma unroll
    for (int32_t distance = 16; distance > 0; distance /= 2)
      value = op(value, __shfl_xor_sync(~0u, value, distance));
    // Two sets in turn: a thread may still read one when others write the next.
    T* values = reinterpret_cast<T*>(of_warps[turn_]);
    turn_ ^= 1;
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
    __syncthreads();
    value = values[0];
#pragma unroll
    for (int32_t warp = 1; warp < kWarps; ++warp) value = op(value, values[warp]);
    return value;
  }

  __device__ int32_t sum_before(int32_t value, int32_t& total) {
    __shared__ int32_t of_warps[2][kWarps];
    const int32_t lane = thread() % 32, warp = thread() / 32;
    int32_t sum = value;
#pragma unroll
    for (int32_t distance = 1; distance < 32; distance *= 2) {
      const int32_t below = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += below;
    }
    int32_t* sums = of_warps[turn_];
    turn_ ^= 1;
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    const int32_t of_warp = lane < kWarps ? sums[lane] : 0;
    total = __reduce_add_sync(~0u, of_warp);
    return __reduce_add_sync(~0u, lane < warp ? of_warp : 0) + sum - value;
  }

 private:
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  static constexpr int32_t kWarps = kThreads / 32;
  int32_t turn_ = 0;
};

}  // namespace rtfx
