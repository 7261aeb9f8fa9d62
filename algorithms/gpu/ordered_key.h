// Converts floats to unsigned integers of the same order, so that integer instructions (maximum
// over a warp, atomic minimum) can compare them. A key holds such an integer in its upper half and
// an index in its lower half. So the index decides among equal values. top_k
// (algorithms/shared/beams/top_k.h) follows the rule of max_key with tensor operators.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/gpu/host_device.h"

namespace rtfx {

namespace ordered_key {
inline constexpr uint32_t kSign = 0x80000000u;
inline constexpr uint32_t kNan = 0x7fc00000u;  // a positive NaN, above infinity
}  // namespace ordered_key

/// Returns an integer with the order of the values, where -0 is below 0. A NaN lies beyond the
/// infinity of its sign.
RTFX_DEVICE inline uint32_t ordered_bits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return (bits & ordered_key::kSign) != 0 ? ~bits : bits | ordered_key::kSign;
}

/// Returns the value from which ordered_bits() or rank_of() made `ordered`.
RTFX_DEVICE inline float from_ordered_bits(uint32_t ordered) {
  const uint32_t bits =
      (ordered & ordered_key::kSign) != 0 ? ordered & ~ordered_key::kSign : ~ordered;
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Returns an integer for the search of the greatest value. -0 equals 0. Every NaN is the greatest
/// value, as in LibTorch's max, so that it reaches the scores. The result is never 0 or ~0.
RTFX_DEVICE inline uint32_t rank_of(float value) {
  value += 0.0f;  // -0 becomes 0
  uint32_t bits = ordered_key::kNan;
  if (value == value) memcpy(&bits, &value, sizeof(bits));
  return (bits & ordered_key::kSign) != 0 ? ~bits : bits | ordered_key::kSign;
}

/// A key of a value and an index. A greater value has a greater key. Among equal values, a lower
/// index has a greater key. No key is 0 or ~0.
using MaxKey = unsigned long long;

RTFX_DEVICE inline MaxKey max_key_of_rank(uint32_t rank, int32_t index) {
  return MaxKey{rank} << 32 | (0xffffffffu - static_cast<uint32_t>(index));
}
RTFX_DEVICE inline MaxKey max_key(float value, int32_t index) {
  return max_key_of_rank(rank_of(value), index);
}
RTFX_DEVICE inline int32_t index_of(MaxKey key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}
RTFX_DEVICE inline float value_of(MaxKey key) {
  return from_ordered_bits(static_cast<uint32_t>(key >> 32));
}

}  // namespace rtfx
