// project_frames: joint.enc of every frame of the batch, before the search.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"

namespace rtfx::fused {

/// A warp's share: some outputs of some frames of one row.
struct FrameShare {
  int b, length;    // row and its frames
  int tile, frame;  // the first of each
};

/// The product of one share, over all inputs.
template <class T, int kOutputTiles, int kFrameTiles>
__device__ inline void multiply_frames(const Search& s, const FrameShare& share,
                                       Accumulator (&sums)[kOutputTiles][kFrameTiles]) {
  const Matrix& matrix = s.model.encoder;
  const int lane = threadIdx.x % kWarpSize;
  const int offset = lane % 4 * static_cast<int>(sizeof(uint4));
  const char* row = static_cast<const char*>(s.frames_in) +
                    static_cast<size_t>(share.b) * s.frames * s.frame_bytes + offset;
  const uint4 *inputs[kFrameTiles], *weights[kOutputTiles];
#pragma unroll
  for (int f = 0; f < kFrameTiles; ++f) {
    const int frame = min(share.frame + f * kTileColumns + lane / 4, share.length - 1);
    inputs[f] = reinterpret_cast<const uint4*>(row + static_cast<size_t>(frame) * s.frame_bytes);
  }
#pragma unroll
  for (int o = 0; o < kOutputTiles; ++o)
    weights[o] = Tiles{}.at(matrix, min(share.tile + o, matrix.tiles - 1));
#pragma unroll 2
  for (int chunk = 0; chunk < matrix.chunks; ++chunk) {
    uint4 x[kFrameTiles];
#pragma unroll
    for (int f = 0; f < kFrameTiles; ++f)
      x[f] = chunk * kChunkBytes + offset < s.frame_bytes ? __ldg(inputs[f] + chunk * 4) : uint4{};
#pragma unroll
    for (int o = 0; o < kOutputTiles; ++o) {
      const uint4 upper = __ldg(weights[o] + chunk * kChunkVectors),
                  lower = __ldg(weights[o] + chunk * kChunkVectors + kLowerRow);
#pragma unroll
      for (int f = 0; f < kFrameTiles; ++f) multiply_chunk<T>(sums[o][f], upper, lower, x[f]);
    }
  }
}

/// Adds the bias, stores, and marks the row where there is a NaN.
template <class T, int kOutputTiles, int kFrameTiles>
__device__ inline void store_frames(const Search& s, const FrameShare& share,
                                    const Accumulator (&sums)[kOutputTiles][kFrameTiles]) {
  const int lane = threadIdx.x % kWarpSize;
  const int width = s.model.encoder.tiles * kTileRows;
  T* row = static_cast<T*>(s.encoded) + static_cast<size_t>(share.b) * s.frames * width;
  bool nan = false;
#pragma unroll
  for (int o = 0; o < kOutputTiles; ++o) {
    if (share.tile + o >= s.model.encoder.tiles) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = (share.tile + o) * kTileRows + lane / 4 + 8 * half;
      const float bias = __ldg(s.model.encoder_bias + output);
#pragma unroll
      for (int f = 0; f < kFrameTiles; ++f) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int frame = share.frame + f * kTileColumns + lane % 4 * 2 + odd;
          const float value = sums[o][f][2 * half + odd] + bias;
          if (frame >= share.length) continue;
          nan |= value != value;
          row[static_cast<size_t>(frame) * width + output] = from_float<T>(value);
        }
      }
    }
  }
  if (nan) s.saw_nan[share.b] = 1;
}

/// The shares of all frames, for kOutputTiles x 16 outputs and kFrameTiles x 8 frames each. Those
/// of a block lie side by side.
template <class T, int kOutputTiles, int kFrameTiles>
struct FrameShares {
  const Search& s;
  int groups, columns, count;

  __device__ explicit FrameShares(const Search& search)
      : s(search),
        groups(ceil_div(s.frames, kFrameTiles * kTileColumns)),
        columns(s.batch * groups),
        count(columns * ceil_div(s.model.encoder.tiles, kOutputTiles)) {}

  __device__ FrameShare operator[](int i) const {
    const int column = i % columns, b = column / groups;
    return {b, min(max(static_cast<int>(s.lengths[b]), 0), s.frames), i / columns * kOutputTiles,
            column % groups * kFrameTiles * kTileColumns};
  }

  __device__ void work() const {
    const int each = ceil_div(static_cast<unsigned>(count), gridDim.x);
    const int end = min(count, (static_cast<int>(blockIdx.x) + 1) * each);
    for (int i = blockIdx.x * each + threadIdx.x / kWarpSize; i < end; i += kWarps) {
      const FrameShare share = (*this)[i];
      if (share.frame >= share.length) continue;
      Accumulator sums[kOutputTiles][kFrameTiles] = {};
      multiply_frames<T>(s, share, sums);
      store_frames<T>(s, share, sums);
    }
  }
};

/// Large shares read less, small ones keep more warps busy. (float32 has no registers for the
/// largest: its products are made of three.) Not inlined, as it would take registers from the
/// phases of the search.
template <class T>
__device__ __noinline__ void project_frames(const Search& s) {
  const FrameShares<T, 4, sizeof(T) == 4 ? 2 : 4> large(s);
  if (large.count >= gridDim.x * kWarps) {
    large.work();
  } else {
    FrameShares<T, 2, 2>(s).work();
  }
}

}  // namespace rtfx::fused
