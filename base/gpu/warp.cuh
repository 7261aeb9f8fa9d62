// Reductions and sums over the lanes of a warp. All lanes of the warp call these functions
// together.
#pragma once

#include <cstdint>

#include "base/gpu/host_device.h"

namespace rtfx {

/// Returns op over the values of each group of kLanes neighbours to all lanes of the group. kLanes
/// is a power of 2. op is commutative and associative; with a rounding op, all lanes of a group
/// still get the same bits.
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

/// Returns the sum of the values of the lanes up to this one, itself included. lane: the thread's
/// place in its warp.
__device__ inline int32_t warp_inclusive_sum(int32_t value, int32_t lane) {
#pragma unroll
  for (int32_t distance = 1; distance < kWarpSize; distance *= 2) {
    const int32_t below = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

}  // namespace rtfx
