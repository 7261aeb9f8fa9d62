// What the phases of a search step share. A phase (look, advance, predict) is written for a whole
// grid of thread blocks (kThreads threads). Between two of them every block must see what the
// others wrote: a grid barrier or the end of a kernel.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"

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

/// h of `layer` of row b, in one of the two buffers.
template <class T>
__device__ inline T* hidden_row(const Search& s, int layer, int buffer, int b) {
  const size_t bytes = static_cast<size_t>(s.model.projection.chunks) * kChunkBytes;
  return reinterpret_cast<T*>(s.state + static_cast<size_t>(b) * s.state_bytes +
                              (layer * 2 + buffer) * bytes);
}
__device__ inline float* cell_row(const Search& s, int layer, int b) {
  return reinterpret_cast<float*>(s.state + static_cast<size_t>(b) * s.state_bytes + s.c_at) +
         static_cast<size_t>(layer) * s.model.units;
}
/// g of row b.
template <class T>
__device__ inline T* joint_row(const Search& s, int b) {
  return reinterpret_cast<T*>(s.state + static_cast<size_t>(b) * s.state_bytes + s.g_at);
}

__device__ inline unsigned long long* keys_of(const Search& s, int step) {
  return s.keys + static_cast<size_t>(step % 3) * 2 * s.key_rows;
}

}  // namespace rtfx::fused
