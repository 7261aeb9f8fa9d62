// What the phases of a search step share. A phase (look, advance, predict) is written for a whole
// grid of thread blocks (kThreads threads). Between two of them every block must see what the
// others wrote: a grid barrier or the end of a kernel.
#pragma once

#include "algorithms/fused_looping/tile.cuh"

namespace rtfx::fused {

constexpr int kGroup = 5;  // tiles of the output matrix that a block evaluates together
static_assert(2 * kGroup == kWarps && kWarps <= kPairs,
              "one warp finds the best outputs of a tile");
constexpr int kOwnColumns = 4;  // batch tiles that predict takes together, of a block's own tile
constexpr int kPass = kOwnColumns + 1;  // and one of another tile
static_assert(2 * kPass <= kPairs);

struct Scratch {
  Partials partials;
  unsigned long long best[2 * kGroup][kTileColumns];
};

/// Larger for a larger value, and among equal values for the smaller index; NaN is the largest, as
/// in LibTorch. Never 0.
__device__ inline unsigned long long make_key(float value, int index) {
  unsigned bits = value != value ? 0x7fc00000u : __float_as_uint(value + 0.0f);  // -0 equals 0
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(bits) << 32 | (0xffffffffu - static_cast<unsigned>(index));
}
__device__ inline int key_index(unsigned long long key) {
  return static_cast<int>(0xffffffffu - static_cast<unsigned>(key));
}
__device__ inline float key_value(unsigned long long key) {
  const auto bits = static_cast<unsigned>(key >> 32);
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

__device__ inline unsigned long long* keys_of(const Search& s, int step) {
  return s.keys + static_cast<size_t>(step % 3) * 2 * s.key_rows;
}

}  // namespace rtfx::fused
