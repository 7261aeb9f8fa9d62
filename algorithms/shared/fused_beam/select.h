// The largest of many values by a block of threads, without sorting them.
#pragma once

#include <cstdint>
#include <cstring>

#include "algorithms/gpu/thread_block.h"

namespace rtfx::fused_beam {

/// Orders as top_k (algorithms/shared/beams/top_k.h) does: the greater value, among equals the
/// lower index, is the greater key. A NaN counts as the greatest value, so that it reaches the
/// scores. No key is 0 or ~0.
using Key = unsigned long long;

constexpr uint32_t kNanBits = 0x7fc00000u;

/// The upper half of a key: ordered as the values are.
RTFX_DEVICE inline uint32_t rank_of(float value) {
  value += 0.0f;  // -0 becomes 0
  uint32_t bits = kNanBits;
  if (value == value) memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

RTFX_DEVICE inline Key key_of_rank(uint32_t rank, int32_t index) {
  return Key{rank} << 32 | (0xffffffffu - static_cast<uint32_t>(index));
}

RTFX_DEVICE inline Key key_of(float value, int32_t index) {
  return key_of_rank(rank_of(value), index);
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
/// thread knows the best of its own indices and looks at them again only after that one was taken;
/// one with a single index never does.
template <class Block, class KeyAt, class Visit>
RTFX_DEVICE void select(Block& block, int32_t n, int32_t k, const KeyAt& key_at,
                        const Visit& visit) {
  const auto best_below = [&](Key taken) {
    Key best = 0;
    for (int32_t j = block.thread(); j < n; j += block.threads()) {
      const Key key = key_at(j);
      if (key < taken && key > best) best = key;
    }
    return best;
  };
  const bool has_more = block.thread() + block.threads() < n;
  Key own = best_below(~Key{0});
  for (int32_t i = 0; i < k; ++i) {
    const Key taken = block.all(own, Maximum{});
    visit(i, taken);
    if (own == taken && i + 1 < k) own = has_more ? best_below(taken) : 0;
  }
}

/// Whether visit(i, ...) is this thread's: each is one thread's.
template <class Block>
RTFX_DEVICE bool is_mine(const Block& block, int32_t i) {
  return block.thread() == i % block.threads();
}

}  // namespace rtfx::fused_beam
