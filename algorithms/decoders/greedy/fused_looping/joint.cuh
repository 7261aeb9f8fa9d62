// evaluate_joint() applies the joint network to up to `window` frames of each active row, and finds
// the best token and duration of each frame.
#pragma once

#include <type_traits>

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"
#include "base/gpu/activation.h"

namespace rtfx::fused {

/// Returns tanh or sigmoid of 16 bytes of values. It is not inlined. Few joint networks use it,
/// inlined it was a large part of the kernel, and a larger kernel is slower in all its phases.
template <class T>
__device__ __noinline__ uint4 squashed(bool is_tanh, uint4 values) {
  T* const x = reinterpret_cast<T*>(&values);
  for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i)
    x[i] = from_float<T>(is_tanh ? tanhf(to_float(x[i])) : sigmoid(to_float(x[i])));
  return values;
}

/// Returns e + g of 16 bytes of values, or relu(e + g) with kRelu. A sum of two 16-bit values is
/// computed in their type and rounded once. It equals a float32 sum that is rounded afterwards,
/// because float32 has more than twice the digits.
template <class T, bool kRelu>
__device__ inline uint4 sum_of(uint4 e, uint4 g) {
  uint4 result;
  if constexpr (std::is_same_v<T, float>) {
    const float *left = reinterpret_cast<const float*>(&e),
                *right = reinterpret_cast<const float*>(&g);
    float* out = reinterpret_cast<float*>(&result);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float sum = left[i] + right[i];
      out[i] = kRelu ? relu(sum) : sum;
    }
  } else {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Pair *left = reinterpret_cast<const Pair*>(&e),
               *right = reinterpret_cast<const Pair*>(&g);
    Pair* out = reinterpret_cast<Pair*>(&result);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pair sum = __hadd2(left[i], right[i]);
      out[i] = kRelu ? __hmax2_nan(sum, Pair{T(0.0f), T(0.0f)}) : sum;
    }
  }
  return result;
}

/// Returns act(e + g) of 16 bytes of values.
template <class T>
__device__ inline uint4 hidden(Activation activation, uint4 e, uint4 g) {
  if (activation == Activation::relu) return sum_of<T, true>(e, g);
  return squashed<T>(activation == Activation::tanh, sum_of<T, false>(e, g));
}

/// Returns the best key of the 16 outputs of a column, over the lanes that share the column.
__device__ inline MaxKey best_of_column(MaxKey key) {
#pragma unroll
  for (int distance = 4; distance < kWarpSize; distance *= 2) {
    const MaxKey other = __shfl_xor_sync(0xffffffffu, key, distance);
    key = other > key ? other : key;
  }
  return key;
}

/// A lane's frame in each of two tiles of frames. It is the frame of column lane / 4, or the step's
/// last frame if the tile has fewer columns.
struct LaneFrames {
  const uint4 *encoded[2], *prediction[2];  // this lane's 16 bytes of the first chunk
  int owner[2];                             // row of the frame

  /// Returns the frames for two tiles that are `distance` apart.
  template <class T>
  __device__ static LaneFrames of(const Search& s, const Rows& rows, int column_tile,
                                  int distance) {
    const int lane = threadIdx.x % kWarpSize;
    const int window = rows.counts[kWindow], last = rows.counts[kActive] * window - 1;
    const size_t stride = static_cast<size_t>(s.model.output.chunks) * kChunkBytes;
    LaneFrames lanes;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = min((column_tile + j * distance) * kTileColumns + lane / 4, last);
      const int slot = row / window, b = lanes.owner[j] = rows[slot].active;
      const int frame = min(rows[b].time + row - slot * window, rows[b].length - 1);
      lanes.encoded[j] =
          reinterpret_cast<const uint4*>(static_cast<const char*>(s.encoded) +
                                         (b * static_cast<size_t>(s.frames) + frame) * stride) +
          lane % 4;
      lanes.prediction[j] = reinterpret_cast<const uint4*>(joint_row<T>(s, b)) + lane % 4;
    }
    return lanes;
  }
};

/// Loads Search::bonus of this lane's outputs of a tile for its two frames, as [column][half]; see
/// total(). `owner` is the row of the frame of column lane / 4.
__device__ inline void load_bonus(const Search& s, int tile, int owner, float (&bonus)[2][2]) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    const int b = __shfl_sync(0xffffffffu, owner, (lane % 4 * 2 + odd) * 4);
    const float* const row = s.bonus + static_cast<size_t>(b) * s.model.blank;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = tile * kTileRows + lane / 4 + 8 * half;
      if (output < s.model.blank) bonus[odd][half] = load_written(row + output);
    }
  }
}
__device__ inline void load_output_bias(const Search& s, int tile, float (&output_bias)[2]) {
  const float* at = s.model.output_bias + tile * kTileRows + threadIdx.x % kWarpSize / 4;
  output_bias[0] = __ldg(at);
  output_bias[1] = __ldg(at + 8);
}

/// Returns the greater value, or NaN if one of them is NaN.
__device__ inline float greater(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// A lane's logits of a tile.
struct Logits {
  int output[2];       // by half
  float values[2][2];  // [column][half]

  /// `sums` are as total() returns them.
  template <class T>
  __device__ static Logits of(int tile, float4 sums, const float (&output_bias)[2]) {
    const int output = tile * kTileRows + threadIdx.x % kWarpSize / 4;
    return {{output, output + 8},
            {{rounded<T>(sums.x + output_bias[0]), rounded<T>(sums.z + output_bias[1])},
             {rounded<T>(sums.y + output_bias[0]), rounded<T>(sums.w + output_bias[1])}}};
  }
};

/// The best tokens of a lane's two columns. With kWithBonus, the bonus counts. Which token the
/// model alone ranks first does not matter then. Only its logit is kept, to compare it with blank,
/// which best_others() handles.
template <bool kWithBonus>
struct BestTokens {
  MaxKey token[2] = {0, 0};           // kWithBonus: with its bonus; 0: no token
  float plain[2] = {kNever, kNever};  // kWithBonus: best logit without bonus

  __device__ void add(const Model& model, const Logits& logits, const float (&bonus)[2][2]) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float logit = logits.values[odd][half], added = kWithBonus ? bonus[odd][half] : 0;
        const int output = logits.output[half];
        const bool counts =
            kWithBonus ? output < model.blank && added != kNever : output < model.labels;
        if constexpr (kWithBonus) plain[odd] = greater(plain[odd], counts ? logit : kNever);
        const MaxKey key = max_key(kWithBonus ? logit + added : logit, output);
        token[odd] = max(token[odd], counts ? key : 0);
      }
    }
  }

  /// Reduces the keys over the lanes of each column. With branches for each column, the two columns
  /// could not be reduced side by side.
  __device__ void reduce() {
#pragma unroll
    for (int distance = 4; distance < kWarpSize; distance *= 2) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        token[odd] = max(token[odd], __shfl_xor_sync(0xffffffffu, token[odd], distance));
        if constexpr (kWithBonus)
          plain[odd] = greater(plain[odd], __shfl_xor_sync(0xffffffffu, plain[odd], distance));
      }
    }
  }

  /// Returns the key by which the best token competes with blank.
  __device__ MaxKey key(int odd) const { return kWithBonus ? max_key(plain[odd], 0) : token[odd]; }
};

/// Adds the best outputs of a frame to the keys of the step, by atomic maxima.
template <bool kWithBonus>
__device__ inline void add_best(const Search& s, MaxKey* keys, int frame, MaxKey best, MaxKey sum) {
  if (kWithBonus && sum == 0) return;  // no token is allowed
  atomicMax(keys + frame, best);
  if constexpr (kWithBonus) atomicMax(keys + 2 * s.key_rows + frame, sum);
}

/// Returns whether a tile has other outputs than tokens.
__device__ inline bool has_others(const Model& model, int tile) {
  return tile * kTileRows + kTileRows - 1 >= model.blank;
}

/// Adds the best duration of a tile's outputs to the keys, and with kWithBonus also the blanks. One
/// warp calls this.
template <bool kWithBonus>
__device__ inline void best_others(const Search& s, const Logits& logits, int column_tile,
                                   int frames, MaxKey* keys) {
  const int lane = threadIdx.x % kWarpSize, labels = s.model.labels;
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    const int frame = column_tile * kTileColumns + lane % 4 * 2 + odd;
    MaxKey duration = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = logits.output[half];
      const float logit = logits.values[odd][half];
      if (kWithBonus && output >= s.model.blank && output < labels && frame < frames)
        atomicMax(keys + frame, max_key(logit, output));
      if (output >= labels && output < labels + s.model.durations)
        duration = max(duration, max_key(logit, output - labels));
    }
    if (s.model.durations == 0) continue;
    duration = best_of_column(duration);
    if (lane < 4 && duration != 0 && frame < frames) atomicMax(keys + s.key_rows + frame, duration);
  }
}

/// Returns the memory of the best tokens with their bonuses. It was the memory of the sums of a
/// tile pair, which only the pair's own warp has read.
__device__ inline MaxKey* best_sums(Scratch& scratch, int pair) {
  return reinterpret_cast<MaxKey*>(scratch.partials.values[0][pair]);
}

/// Finds the best token and duration among the 16 outputs of a tile, for each of 8 frames. Each
/// warp calls this for its own tile.
template <class T, bool kWithBonus>
__device__ inline void best_of_tile(const Search& s, int tile, const float (&output_bias)[2],
                                    const float (&bonus)[2][2], int column_tile, int frames,
                                    MaxKey* keys, Scratch& scratch) {
  const int pair = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;  // a warp per pair
  const Logits logits = Logits::of<T>(tile, total(scratch.partials, pair), output_bias);
  if constexpr (kWithBonus) __syncwarp();  // best_sums() takes the place of the sums
  BestTokens<kWithBonus> best;
  best.add(s.model, logits, bonus);
  // With a bonus, a tile without tokens has nothing to reduce.
  if (!kWithBonus || tile * kTileRows < s.model.blank) best.reduce();
  if (lane < 4) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int column = lane * 2 + odd;
      scratch.best[pair][column] = best.key(odd);
      if constexpr (kWithBonus) best_sums(scratch, pair)[column] = best.token[odd];
    }
  }
  if (has_others(s.model, tile)) best_others<kWithBonus>(s, logits, column_tile, frames, keys);
}

/// Computes kCount tiles of logits from `first_tile` on, for two tiles of 8 frames that are
/// `distance` apart. Reduces them to the best token and duration of each frame. All warps of a
/// block call this and share the inputs.
template <class T, int kCount, bool kWithBonus>
__device__ void evaluate_tiles(const Search& s, const Rows& rows, const Tiles& tiles,
                               int first_tile, int column_tile, int distance, MaxKey* keys,
                               Scratch& scratch) {
  const Matrix& matrix = s.model.output;
  const int warp = threadIdx.x / kWarpSize;
  const int frames = rows.counts[kActive] * rows.counts[kWindow];
  const LaneFrames lanes = LaneFrames::of<T>(s, rows, column_tile, distance);
  const bool second = (column_tile + distance) * kTileColumns < frames;
  const int j = warp / kCount, own_tile = first_tile + warp % kCount;
  const bool finds = j == 0 || (j == 1 && second);
  float output_bias[2] = {}, bonus[2][2] = {};  // loaded while the products are computed
  if (finds) {
    load_output_bias(s, own_tile, output_bias);
    if constexpr (kWithBonus)
      load_bonus(s, own_tile, j == 0 ? lanes.owner[0] : lanes.owner[1], bonus);
  }
  const uint4* first_weights = tiles.at<kGroup>(matrix, first_tile);
  Accumulator sums[2][kCount] = {};
  for (int first = warp; first < matrix.chunks; first += 2 * kWarps) {
    uint4 e[2][2] = {}, g[2][2] = {};  // [chunk][column tile]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        const int chunk = first + i * kWarps;
        if (chunk >= matrix.chunks || (t == 1 && !second)) continue;
        e[i][t] = __ldcg(lanes.encoded[t] + chunk * 4);
        g[i][t] = __ldcg(lanes.prediction[t] + chunk * 4);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
      const uint4* weights = first_weights + chunk * kGroup * kChunkVectors;
      uint4 halves[kCount][2];
#pragma unroll
      for (int p = 0; p < kCount; ++p) {
        halves[p][0] = weights[p * kChunkVectors];
        halves[p][1] = weights[p * kChunkVectors + kSecondHalf];
      }
      const uint4 left = hidden<T>(s.model.activation, e[i][0], g[i][0]);
#pragma unroll
      for (int p = 0; p < kCount; ++p)
        multiply_chunk<T>(sums[0][p], halves[p][0], halves[p][1], left);
      if (!second) continue;
      const uint4 right = hidden<T>(s.model.activation, e[i][1], g[i][1]);
#pragma unroll
      for (int p = 0; p < kCount; ++p)
        multiply_chunk<T>(sums[1][p], halves[p][0], halves[p][1], right);
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
  if (finds)
    best_of_tile<T, kWithBonus>(s, own_tile, output_bias, bonus, column_tile + j * distance, frames,
                                keys, scratch);
  SearchBarrier::sync();
  const int column = threadIdx.x % kTileColumns, half = threadIdx.x / kTileColumns;
  const int frame = (column_tile + half * distance) * kTileColumns + column;
  if (half < 2 && frame < frames) {
    MaxKey best = 0, sum = 0;
#pragma unroll
    for (int p = 0; p < kCount; ++p) {
      best = max(best, scratch.best[half * kCount + p][column]);
      if constexpr (kWithBonus) sum = max(sum, best_sums(scratch, half * kCount + p)[column]);
    }
    add_best<kWithBonus>(s, keys, frame, best, sum);
  }
}

/// Computes the logits of a group of tiles from `first_tile` on, for two tiles of 8 frames that are
/// `distance` apart. Reduces them to the best token and duration of each frame. One warp calls
/// this. The activation is relu. The sums have the same order as in evaluate_tiles(), so the
/// results are equal bit for bit.
template <class T, bool kWithBonus>
__device__ inline void evaluate_frames(const Search& s, const Rows& rows, const Tiles& tiles,
                                       int first_tile, int column_tile, int distance, MaxKey* keys,
                                       Scratch& scratch) {
  const Matrix& matrix = s.model.output;
  const int chunks = matrix.chunks, lane = threadIdx.x % kWarpSize;
  const LaneFrames lanes = LaneFrames::of<T>(s, rows, column_tile, distance);
  const uint4* first_weights = tiles.at<kGroup>(matrix, first_tile);
  uint4 e[2][2], g[2][2];  // [chunk][column tile], loaded while the chunks before are multiplied
  const auto load = [&](int i, int chunk) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      e[i][j] = __ldcg(lanes.encoded[j] + chunk * 4);
      g[i][j] = __ldcg(lanes.prediction[j] + chunk * 4);
    }
  };
  load(0, 0);
  load(1, min(kWarps, chunks - 1));
  // A part is the sum over the chunks that one warp has in evaluate_tiles().
  Accumulator sums[2][kGroup] = {}, parts[2][kGroup] = {};
  const int all_parts = min(kWarps, chunks);
#pragma unroll 1
  for (int part = 0, first = 0; part < all_parts;) {
    int next = first + 2 * kWarps;
    const bool ends = next >= chunks;
    if (ends) next = ++part;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 left = sum_of<T, true>(e[i][0], g[i][0]),
                  right = sum_of<T, true>(e[i][1], g[i][1]);
      const int chunk = first + i * kWarps, next_chunk = next + i * kWarps;
      if (part < all_parts && next_chunk < chunks) load(i, next_chunk);
      if (chunk >= chunks) continue;
      const uint4* weights = first_weights + chunk * kGroup * kChunkVectors;
      // Each product waits for the one before it on the same sums, so products on other sums lie
      // between them.
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint4 w[kGroup];
#pragma unroll
        for (int p = 0; p < kGroup; ++p) w[p] = weights[p * kChunkVectors + half * kSecondHalf];
#pragma unroll
        for (int p = 0; p < kGroup; ++p) {
          multiply_half<T>(parts[0][p], w[p], half == 0 ? left.x : left.z,
                           half == 0 ? left.y : left.w);
          multiply_half<T>(parts[1][p], w[p], half == 0 ? right.x : right.z,
                           half == 0 ? right.y : right.w);
        }
      }
    }
    first = next;
    if (!ends) continue;
#pragma unroll
    for (int p = 0; p < kGroup; ++p) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[0][p][i] += parts[0][p][i];
        sums[1][p][i] += parts[1][p][i];
        parts[0][p][i] = parts[1][p][i] = 0;
      }
    }
  }
  // Each lane reads again what it has stored itself, so that one loop serves both column tiles.
#pragma unroll
  for (int p = 0; p < kGroup; ++p) {
    store(scratch.partials, p, sums[0][p]);
    store(scratch.partials, kGroup + p, sums[1][p]);
  }
  const int frames = rows.counts[kActive] * rows.counts[kWindow];
#pragma unroll 1
  for (int j = 0; j < 2; ++j) {
    const int column = column_tile + j * distance;
    if (column * kTileColumns >= frames) return;
    const float4(*stored)[kWarpSize] =
        scratch.partials.values[threadIdx.x / kWarpSize] + j * kGroup;
    float output_bias[kGroup][2], bonus[kGroup][2][2] = {};
#pragma unroll
    for (int p = 0; p < kGroup; ++p) {
      load_output_bias(s, first_tile + p, output_bias[p]);
      if constexpr (kWithBonus)
        load_bonus(s, first_tile + p, j == 0 ? lanes.owner[0] : lanes.owner[1], bonus[p]);
    }
    BestTokens<kWithBonus> best;
#pragma unroll
    for (int p = 0; p < kGroup; ++p)
      best.add(s.model, Logits::of<T>(first_tile + p, stored[p][lane], output_bias[p]), bonus[p]);
    best.reduce();
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int frame = column * kTileColumns + lane * 2 + odd;
      if (lane < 4 && frame < frames)
        add_best<kWithBonus>(s, keys, frame, best.key(odd), best.token[odd]);
    }
    for (int p = 0; p < kGroup; ++p) {
      if (!has_others(s.model, first_tile + p)) continue;
      float own_output_bias[2];
      load_output_bias(s, first_tile + p, own_output_bias);
      best_others<kWithBonus>(s, Logits::of<T>(first_tile + p, stored[p][lane], own_output_bias),
                              column, frames, keys);
    }
  }
}

/// Divides the joint's work among the blocks. A block keeps to one group of tiles, unless there are
/// more groups than blocks. So the weights of the group can stay in its shared memory. It takes
/// every `row_blocks`-th tile of frames from `row_block` on.
struct JointShare {
  int groups, group_blocks, row_blocks;
  __device__ explicit JointShare(const Matrix& output)
      : groups(output.tiles / kGroup),
        group_blocks(min(groups, static_cast<int>(gridDim.x))),
        row_blocks(gridDim.x / group_blocks) {}
  __device__ int group() const { return blockIdx.x % group_blocks; }
  __device__ int row_block() const { return blockIdx.x / group_blocks; }
};

/// Returns the number of tiles of 8 frames that a step evaluates.
__device__ inline int frame_tiles(const Rows& rows) {
  return ceil_div(rows.counts[kActive] * rows.counts[kWindow], kTileColumns);
}

/// Evaluates many tiles of frames for one block. Each warp takes two tiles of its own at a time, so
/// that no warp waits for another. A frame is reduced once for a group of tiles of outputs, not for
/// each tile. This is not inlined, as it would take registers from the other phases. It gets
/// structures by value, as otherwise they would have to be in memory.
template <class T, bool kWithBonus>
__device__ __noinline__ void evaluate_many_frames(const Search& s, Rows rows, Tiles tiles,
                                                  Scratch& scratch) {
  const JointShare share(s.model.output);
  MaxKey* keys = keys_of(s, rows.counts[kSteps]);
  __builtin_assume(__isGlobal(keys));  // otherwise each atomic operation would test this
  const int column_tiles = frame_tiles(rows), distance = kWarps * share.row_blocks;
  const int first = share.row_block() + threadIdx.x / kWarpSize * share.row_blocks;
  for (int group = share.group(); group < share.groups; group += share.group_blocks) {
    for (int column = first; column < column_tiles; column += 2 * distance)
      evaluate_frames<T, kWithBonus>(s, rows, tiles, group * kGroup, column, distance, keys,
                                     scratch);
  }
}

/// Up to this number of tiles of frames, a block is faster if its warps share the inputs.
constexpr int kFewFrameTiles = 4;

/// Evaluates the joint network for one step. With kWithBonus, Search::bonus counts.
template <class T, bool kWithBonus>
__device__ void evaluate_joint(const Search& s, const Rows& rows, const Tiles& tiles,
                               Scratch& scratch) {
  const int step = rows.counts[kSteps];
  MaxKey* next = keys_of(s, step + 1);  // last read two steps ago
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < s.key_kinds * s.key_rows;
       i += gridDim.x * kThreads)
    next[i] = 0;
  const JointShare share(s.model.output);
  const int row_block = share.row_block(), column_tiles = frame_tiles(rows);
  if (row_block >= share.row_blocks) return;
  if (s.model.activation == Activation::relu &&
      row_block + kFewFrameTiles * share.row_blocks < column_tiles)
    return evaluate_many_frames<T, kWithBonus>(s, rows, tiles, scratch);
  MaxKey* keys = keys_of(s, step);
  const bool few = column_tiles * kGroup <= share.row_blocks;
  for (int group = share.group(); group < share.groups; group += share.group_blocks) {
    if (few) {  // a block for each tile of the group
      const int tile = group * kGroup + row_block % kGroup, column = row_block / kGroup;
      if (column < column_tiles)
        evaluate_tiles<T, 1, kWithBonus>(s, rows, tiles, tile, column, column_tiles, keys, scratch);
      continue;
    }
    for (int column = row_block; column < column_tiles; column += 2 * share.row_blocks)
      evaluate_tiles<T, kGroup, kWithBonus>(s, rows, tiles, group * kGroup, column,
                                            share.row_blocks, keys, scratch);
  }
}

}  // namespace rtfx::fused
