// The phase `predict` computes the prediction network and its projection, for the rows that found a
// token.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"
#include "base/gpu/activation.h"

namespace rtfx::fused {

/// The work that a block does at a time. It consists of some batch tiles of the block's own tile of
/// outputs, and of one batch tile of a further tile. The further tiles are those that have no block
/// of their own. (An LSTM of 640 units has 160 tiles, and an H200 has 132 multiprocessors.)
struct TileWork {
  int tile, first_column, columns;  // own: columns 0..kOwnColumns
  int other_tile, other_column;     // other_tile -1: none

  __device__ bool has(int pair) const {
    return pair < kOwnColumns ? pair < columns : other_tile >= 0;
  }
  __device__ int tile_of(int pair) const { return pair < kOwnColumns ? tile : other_tile; }
  __device__ int column_of(int pair) const {
    return pair < kOwnColumns ? first_column + pair : other_column;
  }
};

/// Gives the order in which this block takes its work on `tiles` tiles of outputs x `columns` batch
/// tiles.
struct TileSchedule {
  int tiles, columns;

  __device__ TileWork operator[](int index) const {
    const int grid = gridDim.x, block = blockIdx.x, first = index * kOwnColumns;
    TileWork work{block, first, 0, -1, 0};
    if (block < tiles) work.columns = min(max(columns - first, 0), kOwnColumns);
    const int item = block + index * grid;  // of the tiles beyond the grid
    if (columns > 0 && item < (tiles - grid) * columns) {
      work.other_tile = grid + item / columns;
      work.other_column = item % columns;
    }
    return work;
  }
  __device__ static bool empty(const TileWork& work) {
    return work.columns == 0 && work.other_tile < 0;
  }
};

/// Returns the number of batch tiles of the rows that found a token.
__device__ inline int found_columns(const Rows& rows) {
  return ceil_div(rows.counts[kFound], kTileColumns);
}

/// Adds weights x inputs for the pairs of `work`. inputs[p] is this lane's row for pair p, or
/// nullptr.
template <class T>
__device__ inline void accumulate(const Matrix& matrix, const Tiles& tiles, const TileWork& work,
                                  const void* const (&inputs)[kWorkPairs],
                                  Accumulator (&sums)[kWorkPairs]) {
  const int warp = threadIdx.x / kWarpSize;
  const uint4* own = work.columns > 0 ? tiles.at(matrix, work.tile) : nullptr;
  const uint4* other = work.other_tile >= 0 ? tiles.at(matrix, work.other_tile) : nullptr;
  for (int first = warp; first < matrix.chunks; first += 2 * kWarps) {
    uint4 x[2][kWorkPairs] = {}, weights[2][2] = {};  // `weights` belong to the other tile
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
#pragma unroll
      for (int p = 0; p < kWorkPairs; ++p) {
        if (inputs[p] != nullptr) x[i][p] = load_fresh(inputs[p], chunk);
      }
      if (other == nullptr) continue;
      weights[i][0] = other[chunk * kChunkVectors];
      weights[i][1] = other[chunk * kChunkVectors + kSecondHalf];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
      if (other != nullptr)
        multiply_chunk<T>(sums[kOwnColumns], weights[i][0], weights[i][1], x[i][kOwnColumns]);
      if (own == nullptr) continue;
      const uint4 own_first = own[chunk * kChunkVectors],
                  own_second = own[chunk * kChunkVectors + kSecondHalf];
#pragma unroll
      for (int p = 0; p < kOwnColumns; ++p) {
        if (p < work.columns) multiply_chunk<T>(sums[p], own_first, own_second, x[i][p]);
      }
    }
  }
}

/// Returns the state h of `layer` for row b, after its last token with `fresh`, or before it.
template <class T>
__device__ inline T* state_row(const Search& s, const Rows& rows, int layer, int b, bool fresh) {
  return hidden_row<T>(s, layer, rows[b].state_buffer ^ (fresh ? 0 : 1), b);
}

/// Sets `inputs` to this lane's state rows for the pairs of `work`, among the first `limit` rows
/// with a token.
template <class T>
__device__ inline void lane_inputs(const Search& s, const Rows& rows, const TileWork& work,
                                   int limit, int layer, bool fresh,
                                   const void* (&inputs)[kWorkPairs]) {
#pragma unroll
  for (int p = 0; p < kWorkPairs; ++p) {
    const int slot = work.column_of(p) * kTileColumns + threadIdx.x % kWarpSize / 4;
    inputs[p] = work.has(p) && slot < limit ? state_row<T>(s, rows, layer, rows[slot].found, fresh)
                                            : nullptr;
  }
}

/// The inputs of a lane's LSTM cell, without the sums over W_hh. Lane 4 r + q of a pair's warp has
/// unit r % 4 and column 2 q + r / 4.
struct Cell {
  int b = -1;                              // row, -1: none
  float below[4], bias_ih[4], bias_hh[4];  // by gate
  float* state;
  void* output;

  template <class T>
  __device__ void load(const Search& s, const Rows& rows, int layer, int tile, int column_tile) {
    const int lane = threadIdx.x % kWarpSize, r = lane / 4;
    const int slot = column_tile * kTileColumns + lane % 4 * 2 + r / 4;
    if (slot >= rows.counts[kFound]) return;
    b = rows[slot].found;
    const int outputs = s.model.recurrent[layer].tiles * kTileRows;
    const T* first =
        static_cast<const T*>(s.model.first_gates) + static_cast<size_t>(rows[b].label) * outputs;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int output = tile * kTileRows + 4 * k + r % 4;
      below[k] = layer == 0 ? to_float(first[output]) : 0;
      bias_ih[k] = __ldg(s.model.bias_ih[layer] + output);
      bias_hh[k] = __ldg(s.model.bias_hh[layer] + output);
    }
    const int unit = tile * 4 + r % 4;
    state = cell_row(s, layer, b) + unit;
    output = state_row<T>(s, rows, layer, b, true) + unit;
  }

  /// Computes the new cell and output. `own` holds this lane's sums over W_hh, rounded as in
  /// LibTorch's cell. `old` is the old cell.
  template <class T>
  __device__ void update(const float (&own)[4], float old) {
    float gates[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) gates[k] = below[k] + own[k] + bias_ih[k] + bias_hh[k];
    const float c = sigmoid(gates[1]) * old + sigmoid(gates[0]) * tanhf(gates[2]);
    *state = rounded<T>(c);
    *static_cast<T*>(output) = from_float<T>(sigmoid(gates[3]) * tanhf(c));
  }
};

/// Sets `gates` to the four gates of this lane's cell, from the sums of a pair. Lanes of r < 4 hold
/// the gates i and g of their unit for two columns. Lanes of r >= 4 hold its gates f and o.
template <class T>
__device__ inline void gates_of_cell(const Partials& partials, int pair, float (&gates)[4]) {
  const float4 sums = total(partials, pair);
  const bool upper = threadIdx.x % kWarpSize < 16;
  // A lane keeps the even column and gives the odd one to another lane, or the other way round.
  const float kept[2] = {upper ? sums.x : sums.y, upper ? sums.z : sums.w};
  const float given[2] = {upper ? sums.y : sums.x, upper ? sums.w : sums.z};
  const float taken[2] = {__shfl_xor_sync(0xffffffffu, given[0], 16),
                          __shfl_xor_sync(0xffffffffu, given[1], 16)};
  gates[0] = rounded<T>(upper ? kept[0] : taken[0]);
  gates[1] = rounded<T>(upper ? taken[0] : kept[0]);
  gates[2] = rounded<T>(upper ? kept[1] : taken[1]);
  gates[3] = rounded<T>(upper ? taken[1] : kept[1]);
}

/// Computes W_hh h for the pairs of `work`. This does not depend on the layer below.
template <class T>
__device__ inline void recur(const Search& s, const Rows& rows, int layer, const Tiles& tiles,
                             const TileWork& work, Accumulator (&sums)[kWorkPairs]) {
  const void* inputs[kWorkPairs];
  lane_inputs<T>(s, rows, work, rows.counts[kFound], layer, false, inputs);
  accumulate<T>(s.model.recurrent[layer], tiles, work, inputs, sums);
}

/// Does the rest of `work`: adds the input from the layer below, and updates the cells.
template <class T>
__device__ inline void complete(const Search& s, const Rows& rows, int layer, const Tiles& input,
                                const TileWork& work, const Accumulator (&own)[kWorkPairs],
                                Scratch& scratch) {
  const int warp = threadIdx.x / kWarpSize;
  Cell cell;
  float old = 0;
  if (warp < kWorkPairs && work.has(warp)) {
    cell.load<T>(s, rows, layer, work.tile_of(warp), work.column_of(warp));
    if (cell.b >= 0) old = __ldcg(cell.state);
  }
  Accumulator below[kWorkPairs] = {};
  if (layer > 0) {
    const void* inputs[kWorkPairs];
    lane_inputs<T>(s, rows, work, rows.counts[kFound], layer - 1, true, inputs);
    accumulate<T>(s.model.input[layer], input, work, inputs, below);
  }
  SearchBarrier::sync();  // the last use of the scratch memory is over
#pragma unroll
  for (int p = 0; p < kWorkPairs; ++p) {
    if (!work.has(p)) continue;
    store(scratch.partials, p, own[p]);
    if (layer > 0) store(scratch.partials, kWorkPairs + p, below[p]);
  }
  SearchBarrier::sync();
  if (warp >= kWorkPairs || !work.has(warp)) return;
  float sums[4];
  gates_of_cell<T>(scratch.partials, warp, sums);
  if (layer > 0) gates_of_cell<T>(scratch.partials, kWorkPairs + warp, cell.below);
  if (cell.b >= 0) cell.update<T>(sums, old);
}

/// Computes one LSTM layer for the rows that found a token. below_ready() returns when the layer
/// below is complete, which the recurrent part does not need. The recurrent part is called in one
/// place only, because a larger kernel is slower in all its phases.
template <class T, class BelowReady>
__device__ void lstm(const Search& s, const Rows& rows, int layer, const Tiles& recurrent,
                     const Tiles& input, Scratch& scratch, const BelowReady& below_ready) {
  const TileSchedule schedule{s.model.recurrent[layer].tiles, found_columns(rows)};
  TileWork work = schedule[0];
#pragma unroll 1
  for (int i = 0; i == 0 || !TileSchedule::empty(work); work = schedule[++i]) {
    Accumulator own[kWorkPairs] = {};
    recur<T>(s, rows, layer, recurrent, work, own);
    if (i == 0) below_ready();
    complete<T>(s, rows, layer, input, work, own, scratch);
  }
}

/// Divides the projection among the blocks. A block keeps to one tile of outputs, unless there are
/// more tiles than blocks.
struct ProjectShare {
  int tile_blocks, row_blocks, least;
  /// A block computes at least `least` batch tiles, if there are that many; the upper limit is
  /// kOwnColumns. The larger `least` is, the more blocks are free.
  __device__ explicit ProjectShare(const Matrix& projection, int least = 1)
      : tile_blocks(min(projection.tiles, static_cast<int>(gridDim.x))),
        row_blocks(gridDim.x / tile_blocks),
        least(least) {}
  __device__ int tile() const { return blockIdx.x % tile_blocks; }
  /// Returns how many of `columns` batch tiles a block computes.
  __device__ int each(int columns) const {
    return max(ceil_div(columns, row_blocks), min(columns, least));
  }
  /// Returns the number of blocks that compute. The blocks from this number on have nothing to do.
  __device__ int busy(int columns) const {
    return columns == 0 ? 0 : tile_blocks * ceil_div(columns, each(columns));
  }
};

/// Returns the number of values of g with its padding.
template <class T>
__device__ inline int joint_width(const Search& s) {
  return s.model.output.chunks * kChunkBytes / static_cast<int>(sizeof(T));
}

/// Computes g of the rows that found a token.
template <class T>
__device__ void project(const Search& s, const Rows& rows, const ProjectShare& share,
                        const Tiles& tiles, Scratch& scratch) {
  const Matrix& matrix = s.model.projection;
  const int row_block = blockIdx.x / share.tile_blocks, found = rows.counts[kFound];
  if (row_block >= share.row_blocks) return;
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int columns = found_columns(rows), each = share.each(columns);
  const int end = min(columns, (row_block + 1) * each);
  const int width = joint_width<T>(s);
  for (int tile = share.tile(); tile < matrix.tiles; tile += share.tile_blocks) {
    const int output = tile * kTileRows + lane / 4;
    for (int first = row_block * each; first < end; first += kOwnColumns) {
      const TileWork work{tile, first, min(end - first, kOwnColumns), -1, 0};
      const float bias[2] = {__ldg(s.model.projection_bias + output),
                             __ldg(s.model.projection_bias + output + 8)};
      Accumulator sums[kWorkPairs] = {};
      const void* inputs[kWorkPairs];
      lane_inputs<T>(s, rows, work, found, s.model.layers - 1, true, inputs);
      accumulate<T>(matrix, tiles, work, inputs, sums);
      SearchBarrier::sync();  // the last use of the scratch memory is over
#pragma unroll
      for (int p = 0; p < kOwnColumns; ++p) {
        if (p < work.columns) store(scratch.partials, p, sums[p]);
      }
      SearchBarrier::sync();
      if (warp >= work.columns) continue;
      const float4 sum = total(scratch.partials, warp);
      const float values[2][2] = {{sum.x, sum.y}, {sum.z, sum.w}};  // [half][column]
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int slot = (first + warp) * kTileColumns + lane % 4 * 2 + odd;
          if (slot >= found || output + 8 * half >= width) continue;
          joint_row<T>(s, rows[slot].found)[output + 8 * half] =
              from_float<T>(values[half][odd] + bias[half]);
        }
      }
    }
  }
}

/// Returns (sum - mean W 1) / deviation, with the mean and the deviation of the embeddings of
/// `labels`.
__device__ inline float normalised(const Model& model, const int* labels, float sum, float ones) {
  constexpr float kEpsilon = 1e-5f;  // LibTorch's default
  float total = 0, squares = 0;
  for (int k = 0; k < model.context; ++k) {
    total += model.label_moments[k][2 * labels[k]];
    squares += model.label_moments[k][2 * labels[k] + 1];
  }
  const float width = static_cast<float>(model.norm_width), mean = total / width;
  const float variance = fmaxf(squares / width - mean * mean, 0.0f);
  return (sum - mean * ones) / sqrtf(variance + kEpsilon);
}

/// Returns the number of blocks that have work in look_up(). The blocks from this number on have
/// none.
template <class T>
__device__ inline int look_up_busy(const Search& s, const Rows& rows) {
  return ceil_div(rows.counts[kFound] * joint_width<T>(s), kThreads);
}

/// Computes g of the rows that found a token, for a stateless prediction network.
template <class T>
__device__ void look_up(const Search& s, const Rows& rows) {
  const int width = joint_width<T>(s);
  const int items = rows.counts[kFound] * width;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < items; i += gridDim.x * kThreads) {
    const int b = rows[i / width].found, output = i % width;
    const bool norm = s.model.norm_width > 0;
    const float bias = s.model.projection_bias[output];
    float sum = norm ? 0 : bias;
    const int labels[kMaxContext] = {rows[b].label, rows[b].before};
    for (int k = 0; k < s.model.context; ++k)
      sum += s.model.label_rows[k][static_cast<size_t>(labels[k]) * width + output];
    if (norm) sum = normalised(s.model, labels, sum, s.model.ones_row[output]) + bias;
    joint_row<T>(s, b)[output] = from_float<T>(sum);
  }
}

// -------------------------------------------------------------------------------------------------
// project_frames() applies joint.enc to every frame of the batch, before the search.

/// A warp's share: some outputs of some frames of one row.
struct FrameShare {
  int b, length;    // row and its frames
  int tile, frame;  // the first of each
};

/// Computes the product of one share over all inputs.
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
      const uint4 first = __ldg(weights[o] + chunk * kChunkVectors),
                  second = __ldg(weights[o] + chunk * kChunkVectors + kSecondHalf);
#pragma unroll
      for (int f = 0; f < kFrameTiles; ++f) multiply_chunk<T>(sums[o][f], first, second, x[f]);
    }
  }
}

/// Adds the bias, stores the values, and marks the row if one of them is NaN.
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

/// The shares of all frames. Each has kOutputTiles x 16 outputs and kFrameTiles x 8 frames. The
/// shares of a block lie side by side.
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

/// Applies joint.enc to all frames. Large shares read less memory, and small ones keep more warps
/// busy. (There are too few registers for the largest shares in float32, because each of its
/// products is made of three.) Not inlined, as it would take registers from the phases of the
/// search.
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
