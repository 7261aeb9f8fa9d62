// The largest of many values by a block of threads, without sorting them.
#pragma once

#include <cstdint>

#include "algorithms/gpu/ordered_key.h"
#include "algorithms/gpu/thread_block.h"

namespace rtfx::fused_beam {

/// Every thread calls visit(i, key) for the i-th greatest of key_at(0 .. n - 1), i < k <= n. Each
/// thread remembers the best of its own indices, and searches them again only once that one was
/// taken; a thread with a single index need not.
template <class Block, class KeyAt, class Visit>
RTFX_DEVICE void select(Block& block, int32_t n, int32_t k, const KeyAt& key_at,
                        const Visit& visit) {
  const auto best_below = [&](MaxKey taken) {
    MaxKey best = 0;
    for (int32_t j = block.thread(); j < n; j += block.threads()) {
      const MaxKey key = key_at(j);
      if (key < taken && key > best) best = key;
    }
    return best;
  };
  const bool has_more = block.thread() + block.threads() < n;
  MaxKey own = best_below(~MaxKey{0});
  for (int32_t i = 0; i < k; ++i) {
    const MaxKey taken = block.all_reduce(own, Maximum{});
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
