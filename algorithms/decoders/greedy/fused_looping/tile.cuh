// A tile of 16 outputs x 8 batch rows on the tensor cores, its inputs split over the warps of a
// thread block.
//
// float32 is multiplied as three products of TF32 parts, where x = high + low and low x low is left
// out. The relative error of about 2^-21 is that of a float32 sum of a few hundred terms.
#pragma once

#include <type_traits>

#include "algorithms/decoders/greedy/fused_looping/search.h"
#include "algorithms/gpu/named_barrier.cuh"
#include "algorithms/gpu/ordered_key.h"
#include "base/gpu/mma.cuh"

namespace rtfx::fused {

constexpr int kWarps = 10;
constexpr int kThreads = kWarpSize * kWarps;

/// Waits for the kThreads threads that search. A block of the persistent kernel may have others
/// (bonuses.cuh).
using SearchBarrier = NamedBarrier<0, kThreads>;

constexpr int kPairs = 10;  // tiles that a block sums at a time

// A tile's chunk in uint4: one for each lane, then a second one.
constexpr int kSecondHalf = kWarpSize;
constexpr int kChunkVectors = 2 * kWarpSize;

/// Holds the sums of each warp. Lane 4 r + q has four outputs of a tile: columns 2 q and 2 q + 1 of
/// row r, then those of row r + 8.
struct Partials {
  float4 values[kWarps][kPairs][kWarpSize];
};

using Accumulator = float[4];

template <int N>
__device__ inline void split_tf32(const float (&x)[N], unsigned (&high)[N], unsigned (&low)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    high[i] = to_tf32(x[i]);
    low[i] = to_tf32(x[i] - __uint_as_float(high[i]));
  }
}

/// Multiplies half a chunk: half of the lane's weights, and 8 bytes of batch row r. The four lanes
/// of a row hold its inputs in an order of their own, the same for both operands.
template <class T>
__device__ inline void multiply_half(Accumulator& d, uint4 weights, unsigned x0, unsigned x1) {
  const unsigned a[4] = {weights.x, weights.y, weights.z, weights.w};
  if constexpr (std::is_same_v<T, float>) {
    const float values[4] = {__uint_as_float(a[0]), __uint_as_float(a[1]), __uint_as_float(a[2]),
                             __uint_as_float(a[3])};
    const float inputs[2] = {__uint_as_float(x0), __uint_as_float(x1)};
    unsigned a_high[4], a_low[4], x_high[2], x_low[2];
    split_tf32(values, a_high, a_low);
    split_tf32(inputs, x_high, x_low);
    multiply_add_tf32(d, a_low, x_high);
    multiply_add_tf32(d, a_high, x_low);
    multiply_add_tf32(d, a_high, x_high);
  } else {
    multiply_add(d, a, x0, x1, T());
  }
}

/// Multiplies one chunk. first, second: the halves of the lane's weights; inputs: 16 bytes of batch
/// row r.
template <class T>
__device__ inline void multiply_chunk(Accumulator& d, uint4 first, uint4 second, uint4 inputs) {
  multiply_half<T>(d, first, inputs.x, inputs.y);
  multiply_half<T>(d, second, inputs.z, inputs.w);
}

/// The tiles of a matrix, some of which may have been copied to shared memory.
struct Tiles {
  const uint4* resident = nullptr;  // tiles first..first + count - 1
  int first = 0, count = 0;

  /// Returns this lane's part of the tile, in a matrix with groups of kTogether tiles. The tiles of
  /// a group follow each other at a distance of kChunkVectors. The chunks of a tile follow each
  /// other at kTogether times that distance.
  template <int kTogether = 1>
  __device__ const uint4* at(const Matrix& matrix, int tile) const {
    const bool here = resident != nullptr && tile >= first && tile < first + count;
    const uint4* base = here ? resident : static_cast<const uint4*>(matrix.weights);
    const int index = here ? tile - first : tile;
    const size_t chunk = static_cast<size_t>(index / kTogether) * kTogether * matrix.chunks;
    return base + (chunk + index % kTogether) * kChunkVectors + threadIdx.x % kWarpSize;
  }
};

/// Reads what other thread blocks wrote during this kernel, past the L1 cache.
__device__ inline uint4 load_fresh(const void* row, int chunk) {
  return __ldcg(
      reinterpret_cast<const uint4*>(static_cast<const char*>(row) + chunk * kChunkBytes) +
      threadIdx.x % 4);
}

__device__ inline void store(Partials& partials, int pair, const Accumulator& sums) {
  partials.values[threadIdx.x / kWarpSize][pair][threadIdx.x % kWarpSize] =
      make_float4(sums[0], sums[1], sums[2], sums[3]);
}

/// Returns this lane's outputs of a pair, summed over the warps.
__device__ inline float4 total(const Partials& partials, int pair) {
  float4 sum = partials.values[0][pair][threadIdx.x % kWarpSize];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) {
    const float4 part = partials.values[warp][pair][threadIdx.x % kWarpSize];
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  return sum;
}

// -------------------------------------------------------------------------------------------------
// Memory that the phases of a search step share. A phase (evaluate_joint, advance, predict) is
// written for a whole grid of thread blocks of kThreads threads. Between two phases every block
// must see the writes of all others, by a grid barrier or by the end of a kernel.

static_assert(2 * kGroup == kWarps && kWarps <= kPairs,
              "one warp finds the best outputs of a tile");
constexpr int kOwnColumns = 4;  // batch tiles of a block's own tile that predict takes together
constexpr int kWorkPairs = kOwnColumns + 1;  // and one batch tile of another tile
static_assert(2 * kWorkPairs <= kPairs);

struct Scratch {
  Partials partials;
  MaxKey best[2 * kGroup][kTileColumns];
};

/// Returns h of `layer` of row b, in one of the two buffers.
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
/// Returns g of row b.
template <class T>
__device__ inline T* joint_row(const Search& s, int b) {
  return reinterpret_cast<T*>(s.state + static_cast<size_t>(b) * s.state_bytes + s.g_offset);
}

__device__ inline MaxKey* keys_of(const Search& s, int step) {
  return s.keys + static_cast<size_t>(step % 3) * s.key_kinds * s.key_rows;
}

}  // namespace rtfx::fused
