// Memory that the phases of a search step share. A phase (evaluate_joint, advance, predict) is
// written for a whole grid of thread blocks of kThreads threads. Between two phases every block
// must see the writes of all others, by a grid barrier or by the end of a kernel.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"
#include "algorithms/gpu/ordered_key.h"

namespace rtfx::fused {

constexpr int kGroup = 5;  // tiles of the output matrix that a block evaluates together
static_assert(2 * kGroup == kWarps && kWarps <= kPairs,
              "one warp finds the best outputs of a tile");
constexpr int kOwnColumns = 4;  // batch tiles that predict takes together, of a block's own tile
constexpr int kPass = kOwnColumns + 1;  // and one of another tile
static_assert(2 * kPass <= kPairs);

struct Scratch {
  Partials partials;
  MaxKey best[2 * kGroup][kTileColumns];
};

/// h of `layer` of row b, in one of the two buffers.
template <class T>
__device__ inline T* hidden_row(const Search& s, int layer, int buffer, int b) {
  const size_t bytes = static_cast<size_t>(s.model.projection.chunks) * kChunkBytes;
  return reinterpret_cast<T*>(s.state + static_cast<size_t>(b) * s.state_bytes +
                              (layer * 2 + buffer) * bytes);
}
__device__ inline float* cell_row(const Search& s, int layer, int b) {
  return reinterpret_cast<float*>(s.state + static_cast<size_t>(b) * s.state_bytes + s.c_offset) +
         static_cast<size_t>(layer) * s.model.units;
}
/// g of row b.
template <class T>
__device__ inline T* joint_row(const Search& s, int b) {
  return reinterpret_cast<T*>(s.state + static_cast<size_t>(b) * s.state_bytes + s.g_offset);
}

__device__ inline MaxKey* keys_of(const Search& s, int step) {
  return s.keys + static_cast<size_t>(step % 3) * s.key_kinds * s.key_rows;
}

}  // namespace rtfx::fused
