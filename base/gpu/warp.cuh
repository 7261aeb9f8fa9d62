// Reductions and sums over the lanes of a warp. All lanes of the warp call these functions
// together.
#pragma once

#include <cstdint>

#include "base/gpu/host_device.h"

namespace rtfx {

/// Returns the reduction by `op` of the values of each group of kLanes neighbours, to all lanes of
/// the group. kLanes is a power of 2. `op` is commutative and associative. If `op` rounds, all
/// lanes of a group still get the same bits.
template <int32_t kLanes = kWarpSize, class T, class Op>
__device__ T warp_reduce(T value, const Op& op) {
#pragma unroll
  for (int32_t distance = kLanes / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

/// Returns the sum of the values of all lanes.
__device__ inline float warp_sum(float value) {
  return warp_reduce(value, [](float a, float b) { return a + b; });
}

/// Returns the sum over all lanes of one of kCount numbers that each lane has: lane l gets the sum
/// of number l / (kWarpSize / kCount), with the bits of warp_sum(). kCount is a power of 2. A lane
/// gives away the numbers that others sum, so that it needs fewer exchanges than kCount sums. The
/// numbers are overwritten.
template <int32_t kCount>
__device__ float warp_sums(float (&values)[kCount], int32_t lane) {
  int32_t distance = kWarpSize / 2;
#pragma unroll
  for (int32_t half = kCount / 2; half > 0; half /= 2, distance /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int32_t i = 0; i < half; ++i) {
      const float given = upper ? values[i] : values[half + i];
      values[i] = (upper ? values[half + i] : values[i]) + __shfl_xor_sync(~0u, given, distance);
    }
  }
  float sum = values[0];
#pragma unroll
  for (; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  return sum;
}

/// Returns the greatest value of all lanes. A NaN counts only if all values are NaN.
__device__ inline float warp_max(float value) {
  return warp_reduce(value, [](float a, float b) { return fmaxf(a, b); });
}

/// Returns the greatest value of all lanes. Two instructions for 32 bits take the place of ten
/// shuffles: they find the greatest upper half, then the greatest lower half that belongs to it.
__device__ inline unsigned long long warp_max(unsigned long long value) {
  const auto upper = static_cast<uint32_t>(value >> 32);
  const uint32_t greatest = __reduce_max_sync(~0u, upper);
  const uint32_t lower = upper == greatest ? static_cast<uint32_t>(value) : 0;
  return static_cast<unsigned long long>(greatest) << 32 | __reduce_max_sync(~0u, lower);
}

/// Returns the sum of the values of the lanes up to this one, including its own. `lane` is the
/// thread's place in its warp.
__device__ inline int32_t warp_inclusive_sum(int32_t value, int32_t lane) {
#pragma unroll
  for (int32_t distance = 1; distance < kWarpSize; distance *= 2) {
    const int32_t below = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

}  // namespace rtfx
