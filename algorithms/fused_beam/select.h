// The largest of many values by a block of threads, without sorting them.
#pragma once

#include <cstdint>
#include <cstring>

#include "algorithms/common/thread_block.h"

namespace rtfx::fused_beam {

/// Orders as top_k (algorithms/common/top_k.h) does: the greater value, among equals the lower
/// index, is the greater key. A NaN counts as the greatest value, so that it reaches the scores. No
/// key is 0 or ~0.
using Key = unsigned long long;

constexpr uint32_t kNanBits = 0x7fc00000u;

RTFX_DEVICE inline Key key_of(float value, int32_t index) {
  value += 0.0f;  // -0 becomes 0
  uint32_t bits = kNanBits;
  if (value == value) memcpy(&bits, &value, sizeof(bits));
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return Key{bits} << 32 | (0xffffffffu - static_cast<uint32_t>(index));
}

RTFX_DEVICE inline int32_t index_of(Key key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}

RTFX_DEVICE inline float value_of(Key key) {
  uint32_t bits = static_cast<uint32_t>(key >> 32);
  bits = (bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits;
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// visit(i, key) by every thread for the i-th greatest of key_at(0 .. n - 1), i < k <= n. Each
/// thread knows the best of its own indices and looks at them again only after that one was taken.
template <class Block, class KeyAt, class Visit>
RTFX_DEVICE void select(Block& block, int32_t n, int32_t k, const KeyAt& key_at,
                        const Visit& visit) {
  Key taken = ~Key{0}, own = taken;
  for (int32_t i = 0; i < k; ++i) {
    if (own == taken) {
      own = 0;
      for (int32_t j = block.thread(); j < n; j += block.threads()) {
        const Key key = key_at(j);
        if (key < taken && key > own) own = key;
      }
    }
    taken = block.all(own, [](Key a, Key b) { return a > b ? a : b; });
    visit(i, taken);
  }
}

/// Whether visit(i, ...) is this thread's: each is one thread's.
template <class Block>
RTFX_DEVICE bool is_mine(const Block& block, int32_t i) {
  return block.thread() == i % block.threads();
}

}  // namespace rtfx::fused_beam
