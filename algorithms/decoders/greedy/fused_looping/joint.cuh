// evaluate_joint: the joint network on up to `window` frames of each active row; the best token and
// duration.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"
#include "base/gpu/activation.h"

namespace rtfx::fused {

/// tanh or sigmoid of 16 bytes of values. Not inlined: a good part of the kernel was this, few
/// joint networks have them, and a larger kernel is slower in all its phases.
template <class T>
__device__ __noinline__ uint4 squashed(bool is_tanh, uint4 values) {
  T* const x = reinterpret_cast<T*>(&values);
  for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i)
    x[i] = from_float<T>(is_tanh ? tanhf(to_float(x[i])) : sigmoid(to_float(x[i])));
  return values;
}

/// act(e + g) of 16 bytes of values.
template <class T>
__device__ inline uint4 hidden(Activation activation, uint4 e, uint4 g) {
  uint4 result;
  const T *left = reinterpret_cast<const T*>(&e), *right = reinterpret_cast<const T*>(&g);
  T* out = reinterpret_cast<T*>(&result);
  const bool is_relu = activation == Activation::relu;
#pragma unroll
  for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
    const float x = rounded<T>(to_float(left[i]) + to_float(right[i]));
    out[i] = from_float<T>(is_relu ? relu(x) : x);
  }
  return is_relu ? result : squashed<T>(activation == Activation::tanh, result);
}

/// Best of 16 outputs per column, over the lanes that share it.
__device__ inline MaxKey best_of_column(MaxKey key) {
#pragma unroll
  for (int distance = 4; distance < kWarpSize; distance *= 2) {
    const MaxKey other = __shfl_xor_sync(0xffffffffu, key, distance);
    key = other > key ? other : key;
  }
  return key;
}

/// Loads Search::bonus of this lane's outputs of a tile for its two frames, as [column][half]; see
/// total(). `owner` is the row of the frame of column lane / 4, or -1.
__device__ inline void load_bonus(const Search& s, int tile, int owner, float (&bonus)[2][2]) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    const int b = __shfl_sync(0xffffffffu, owner, (lane % 4 * 2 + odd) * 4);
    if (b < 0) continue;
    const float* const row = s.bonus + static_cast<size_t>(b) * s.model.blank;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = tile * kTileRows + lane / 4 + 8 * half;
      if (output < s.model.blank) bonus[odd][half] = load_written(row + output);
    }
  }
}

/// The greater, or NaN where one is.
__device__ inline float greater(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// The best tokens with what is added to them: where the sums of a tile pair were, which only its
/// own warp has read.
__device__ inline MaxKey* best_sums(Scratch& scratch, int pair) {
  return reinterpret_cast<MaxKey*>(scratch.partials.values[0][pair]);
}

/// One warp: best token and duration among the 16 outputs of its tile, for each of 8 frames.
/// kBiased: `bonus` counts; which token the model alone likes best does not matter then, only
/// whether blank is better, and blank goes by itself: a tile without tokens has nothing to reduce.
/// Branches for each column would keep them from being reduced side by side.
template <class T, bool kBiased>
__device__ inline void best_of_tile(const Search& s, int tile, const float (&bias)[2],
                                    const float (&bonus)[2][2], int column_tile, int frames,
                                    MaxKey* keys, Scratch& scratch) {
  const int pair = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;  // a warp per pair
  const int blank = s.model.blank,
            output[2] = {tile * kTileRows + lane / 4, tile * kTileRows + lane / 4 + 8};
  const float4 sums = total(scratch.partials, pair);
  if constexpr (kBiased) __syncwarp();  // best_sums() takes their place
  float logits[2][2] = {{sums.x, sums.z}, {sums.y, sums.w}}, plain[2];  // [column][half]
  MaxKey token[2];
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    token[odd] = 0;
    plain[odd] = kNever;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float logit = logits[odd][half] = rounded<T>(logits[odd][half] + bias[half]);
      const float added = kBiased ? bonus[odd][half] : 0;
      const bool counts =
          kBiased ? output[half] < blank && added != kNever : output[half] < s.model.labels;
      if constexpr (kBiased) plain[odd] = greater(plain[odd], counts ? logit : kNever);
      const MaxKey key = max_key(kBiased ? logit + added : logit, output[half]);
      token[odd] = max(token[odd], counts ? key : 0);
    }
  }
  const bool reduces = !kBiased || tile * kTileRows < blank;
#pragma unroll
  for (int distance = reduces ? 4 : kWarpSize; distance < kWarpSize; distance *= 2) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {  // over the lanes of a column
      token[odd] = max(token[odd], __shfl_xor_sync(0xffffffffu, token[odd], distance));
      if constexpr (kBiased)
        plain[odd] = greater(plain[odd], __shfl_xor_sync(0xffffffffu, plain[odd], distance));
    }
  }
  if (lane < 4) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int column = lane * 2 + odd;
      scratch.best[pair][column] = kBiased ? max_key(plain[odd], 0) : token[odd];
      if constexpr (kBiased) best_sums(scratch, pair)[column] = token[odd];
    }
  }
  if (tile * kTileRows + kTileRows - 1 < blank) return;  // tokens alone
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    const int frame = column_tile * kTileColumns + lane % 4 * 2 + odd;
    MaxKey duration = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int labels = s.model.labels;
      const MaxKey key = max_key(logits[odd][half], max(output[half] - labels, 0));
      if (kBiased && output[half] >= blank && output[half] < labels && frame < frames)
        atomicMax(keys + frame, max_key(logits[odd][half], output[half]));
      if (output[half] >= labels && output[half] < labels + s.model.durations)
        duration = max(duration, key);
    }
    if (s.model.durations == 0) continue;
    duration = best_of_column(duration);
    if (lane < 4 && duration != 0 && frame < frames) atomicMax(keys + s.key_rows + frame, duration);
  }
}

/// kCount tiles of logits from `first_tile` on for two tiles of 8 frames, `distance` apart, reduced
/// to the best token and duration of each frame.
template <class T, int kCount, bool kBiased>
__device__ void evaluate_tiles(const Search& s, const Rows& rows, const Tiles& tiles,
                               int first_tile, int column_tile, int distance, MaxKey* keys,
                               Scratch& scratch) {
  const Matrix& matrix = s.model.output;
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int window = rows.counts[kWindow], frames = rows.counts[kActive] * window;
  const size_t stride = static_cast<size_t>(matrix.chunks) * kChunkBytes;
  const uint4 *encoded[2] = {}, *prediction[2] = {};
  int owner[2] = {-1, -1};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int row = (column_tile + j * distance) * kTileColumns + lane / 4;
    if (row >= frames) continue;
    const int slot = row / window, b = owner[j] = rows[slot].active;
    const int frame = min(rows[b].time + row - slot * window, rows[b].length - 1);
    encoded[j] =
        reinterpret_cast<const uint4*>(static_cast<const char*>(s.encoded) +
                                       (b * static_cast<size_t>(s.frames) + frame) * stride) +
        lane % 4;
    prediction[j] = reinterpret_cast<const uint4*>(joint_row<T>(s, b)) + lane % 4;
  }
  const bool second = (column_tile + distance) * kTileColumns < frames;
  const int here = min(kCount, matrix.tiles - first_tile);
  float bias[2] = {};
  if (warp % kCount < here) {
    const float* at = s.model.output_bias + (first_tile + warp % kCount) * kTileRows + lane / 4;
    bias[0] = __ldg(at);
    bias[1] = __ldg(at + 8);
  }
  float bonus[2][2] = {};  // on its way while the products are made
  if (kBiased && warp < 2 * kCount && warp % kCount < here)
    load_bonus(s, first_tile + warp % kCount, warp < kCount ? owner[0] : owner[1], bonus);
  const uint4* first_weights = tiles.at(matrix, first_tile);
  const int tile_stride = matrix.chunks * kChunkVectors;
  Accumulator sums[2][kCount] = {};
  for (int first = warp; first < matrix.chunks; first += 2 * kWarps) {
    uint4 e[2][2] = {}, g[2][2] = {};  // [chunk][column tile]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int chunk = first + i * kWarps;
        if (encoded[j] == nullptr || chunk >= matrix.chunks) continue;
        e[i][j] = __ldcg(encoded[j] + chunk * 4);
        g[i][j] = __ldcg(prediction[j] + chunk * 4);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
      const uint4* weights = first_weights + chunk * kChunkVectors;
      uint4 upper[kCount], lower[kCount];
#pragma unroll
      for (int p = 0; p < kCount; ++p) {
        const uint4* at = weights + min(p, here - 1) * tile_stride;
        upper[p] = at[0];
        lower[p] = at[kLowerRow];
      }
      const uint4 left = hidden<T>(s.model.activation, e[i][0], g[i][0]);
#pragma unroll
      for (int p = 0; p < kCount; ++p) multiply_chunk<T>(sums[0][p], upper[p], lower[p], left);
      if (!second) continue;
      const uint4 right = hidden<T>(s.model.activation, e[i][1], g[i][1]);
#pragma unroll
      for (int p = 0; p < kCount; ++p) multiply_chunk<T>(sums[1][p], upper[p], lower[p], right);
    }
  }
  SearchBarrier::sync();  // the last use of the scratch memory is over
#pragma unroll
  for (int p = 0; p < kCount; ++p) store(scratch.partials, p, sums[0][p]);
  if (second) {
#pragma unroll
    for (int p = 0; p < kCount; ++p) store(scratch.partials, kCount + p, sums[1][p]);
  }

  SearchBarrier::sync();
  const int j = warp / kCount;
  if (j == 0 || (j == 1 && second))
    best_of_tile<T, kBiased>(s, first_tile + warp % kCount, bias, bonus, column_tile + j * distance,
                             frames, keys, scratch);
  SearchBarrier::sync();
  const int column = threadIdx.x % kTileColumns, half = threadIdx.x / kTileColumns;
  const int frame = (column_tile + half * distance) * kTileColumns + column;
  if (half < 2 && frame < frames) {
    MaxKey best = 0, sum = 0;
#pragma unroll
    for (int p = 0; p < kCount; ++p) {
      best = max(best, scratch.best[half * kCount + p][column]);
      if constexpr (kBiased) sum = max(sum, best_sums(scratch, half * kCount + p)[column]);
    }
    if (kBiased && sum == 0) return;  // no token that may be
    atomicMax(keys + frame, best);
    if constexpr (kBiased) atomicMax(keys + 2 * s.key_rows + frame, sum);
  }
}

/// How the blocks share the joint's work: a block keeps to one group of tiles, so that their
/// weights can stay in its shared memory, and takes every `row_blocks`-th tile of frames.
struct JointShare {
  int groups, group_blocks, row_blocks;
  __device__ explicit JointShare(const Matrix& output)
      : groups(ceil_div(output.tiles, kGroup)),
        group_blocks(min(groups, static_cast<int>(gridDim.x))),
        row_blocks(gridDim.x / group_blocks) {}
  __device__ int group() const { return blockIdx.x % group_blocks; }
};

/// kBiased: Search::bonus counts.
template <class T, bool kBiased>
__device__ void evaluate_joint(const Search& s, const Rows& rows, const Tiles& tiles,
                               Scratch& scratch) {
  const int step = rows.counts[kSteps];
  MaxKey* next = keys_of(s, step + 1);  // last read two steps ago
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < s.key_kinds * s.key_rows;
       i += gridDim.x * kThreads)
    next[i] = 0;
  const JointShare share(s.model.output);
  const int row_block = blockIdx.x / share.group_blocks;
  if (row_block >= share.row_blocks) return;
  const int frames = rows.counts[kActive] * rows.counts[kWindow];
  const int column_tiles = ceil_div(frames, kTileColumns);
  MaxKey* keys = keys_of(s, step);
  const bool few = column_tiles * kGroup <= share.row_blocks;
  for (int group = share.group(); group < share.groups; group += share.group_blocks) {
    if (few) {  // a block for each tile of the group
      const int tile = group * kGroup + row_block % kGroup, column = row_block / kGroup;
      if (column < column_tiles && tile < s.model.output.tiles)
        evaluate_tiles<T, 1, kBiased>(s, rows, tiles, tile, column, column_tiles, keys, scratch);
      continue;
    }
    for (int column = row_block; column < column_tiles; column += 2 * share.row_blocks)
      evaluate_tiles<T, kGroup, kBiased>(s, rows, tiles, group * kGroup, column, share.row_blocks,
                                         keys, scratch);
  }
}

}  // namespace rtfx::fused
