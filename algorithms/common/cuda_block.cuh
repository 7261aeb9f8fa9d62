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

 private:
  static_assert(kThreads % 32 == 0);
  static constexpr int32_t kWarps = kThreads / 32;
  int32_t turn_ = 0;
};

}  // namespace rtfx
