// The phases of a search step, each for a whole grid of thread blocks (kThreads threads). Between
// two of them every block must see what the others wrote: a grid barrier or the end of a kernel.
//
//   look     joint network on up to `window` frames of each active row; best token and duration
//   advance  what the rows make of it: tokens, times, who is active, who has found a token
//   predict  prediction network and its projection, for the rows that found a token
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

// ---------------------------------------------------------------------------------------------------
// look

/// act(e + g) of 16 bytes of values.
template <class T>
__device__ inline uint4 hidden(Activation activation, uint4 e, uint4 g) {
  constexpr int n = 16 / sizeof(T);
  uint4 result;
  const T *left = reinterpret_cast<const T*>(&e), *right = reinterpret_cast<const T*>(&g);
  T* out = reinterpret_cast<T*>(&result);
  float x[n];
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = rounded<T>(to_float(left[i]) + to_float(right[i]));
  if (activation == Activation::relu) {
#pragma unroll
    for (int i = 0; i < n; ++i) out[i] = from_float<T>(x[i] < 0 ? 0.0f : x[i]);  // keeps a NaN
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float y = activation == Activation::tanh ? tanhf(x[i]) : 1 / (1 + expf(-x[i]));
      out[i] = from_float<T>(y);
    }
  }
  return result;
}

/// Best of 16 outputs per column, over the lanes that share it.
__device__ inline unsigned long long best_of_column(unsigned long long key) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, key, distance);
    key = other > key ? other : key;
  }
  return key;
}

/// One warp: best token and duration among the 16 outputs of its tile, for each of 8 frames.
template <class T>
__device__ inline void best_of_tile(const Search& s, int tile, const float (&bias)[2],
                                    int column_tile, int frames, unsigned long long* keys,
                                    Scratch& scratch) {
  const int pair = threadIdx.x / 32, lane = threadIdx.x % 32;  // a warp per pair
  const bool has_durations =
      s.model.durations > 0 && tile * kTileRows + kTileRows - 1 > s.model.blank;
  const float4 sums = total(scratch.partials, pair);
  const float logits[2][2] = {{sums.x, sums.z}, {sums.y, sums.w}};  // [column][half]
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    unsigned long long token = 0, duration = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = tile * kTileRows + lane / 4 + 8 * half;
      const float logit = rounded<T>(logits[odd][half] + bias[half]);
      if (output <= s.model.blank) {
        token = max(token, make_key(logit, output));
      } else if (output <= s.model.blank + s.model.durations) {
        duration = max(duration, make_key(logit, output - s.model.blank - 1));
      }
    }
    token = tile < s.model.output.tiles ? best_of_column(token) : 0;
    const int column = lane * 2 + odd, frame = column_tile * kTileColumns + column;
    if (lane < 4) scratch.best[pair][column] = token;
    if (!has_durations) continue;
    duration = best_of_column(duration);
    if (lane < 4 && duration != 0 && frame < frames) atomicMax(keys + s.key_rows + frame, duration);
  }
}

/// The group's tiles of logits for two tiles of 8 frames, `distance` apart, reduced to the best
/// token and duration of each frame.
template <class T>
__device__ void look_at_tiles(const Search& s, const Rows& rows, const Tiles& tiles, int group,
                              int column_tile, int distance, unsigned long long* keys,
                              Scratch& scratch) {
  const Matrix& matrix = s.model.output;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int window = rows.counts[kWindow], frames = rows.counts[kActive] * window;
  const size_t stride = static_cast<size_t>(matrix.chunks) * kChunkBytes;
  const uint4 *encoded[2] = {}, *prediction[2] = {};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int row = (column_tile + j * distance) * kTileColumns + lane / 4;
    if (row >= frames) continue;
    const int slot = row / window, b = rows.active[slot];
    const int frame = min(rows.time[b] + row - slot * window, rows.length[b] - 1);
    encoded[j] =
        reinterpret_cast<const uint4*>(static_cast<const char*>(s.encoded) +
                                       (b * static_cast<size_t>(s.frames) + frame) * stride) +
        lane % 4;
    prediction[j] =
        reinterpret_cast<const uint4*>(static_cast<const char*>(s.g) + b * stride) + lane % 4;
  }
  const bool second = (column_tile + distance) * kTileColumns < frames;
  const int here = min(kGroup, matrix.tiles - group * kGroup);  // tiles of the group
  float bias[2] = {};
  if (warp % kGroup < here) {
    const float* at = s.model.output_bias + (group * kGroup + warp % kGroup) * kTileRows + lane / 4;
    bias[0] = __ldg(at);
    bias[1] = __ldg(at + 8);
  }
  const uint4* group_weights = tiles.at(matrix, group * kGroup);
  const int tile_stride = matrix.chunks * kChunkVectors;
  Accumulator sums[2][kGroup] = {};
  for (int first = warp; first < matrix.chunks; first += 2 * kWarps) {
    uint4 e[2][2] = {}, g[2][2] = {};  // [chunk][column tile]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int chunk = first + i * kWarps;
        if (encoded[j] == nullptr || chunk >= matrix.chunks) continue;
        e[i][j] = __ldg(encoded[j] + chunk * 4);
        g[i][j] = __ldcg(prediction[j] + chunk * 4);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
      const uint4* weights = group_weights + chunk * kChunkVectors;
      uint4 upper[kGroup], lower[kGroup];
#pragma unroll
      for (int p = 0; p < kGroup; ++p) {
        const uint4* at = weights + min(p, here - 1) * tile_stride;
        upper[p] = at[0];
        lower[p] = at[32];
      }
      const uint4 left = hidden<T>(s.model.activation, e[i][0], g[i][0]);
#pragma unroll
      for (int p = 0; p < kGroup; ++p) multiply_chunk<T>(sums[0][p], upper[p], lower[p], left);
      if (!second) continue;
      const uint4 right = hidden<T>(s.model.activation, e[i][1], g[i][1]);
#pragma unroll
      for (int p = 0; p < kGroup; ++p) multiply_chunk<T>(sums[1][p], upper[p], lower[p], right);
    }
  }
  __syncthreads();  // the last use of the scratch memory is over
#pragma unroll
  for (int p = 0; p < kGroup; ++p) store(scratch.partials, p, sums[0][p]);
  if (second) {
#pragma unroll
    for (int p = 0; p < kGroup; ++p) store(scratch.partials, kGroup + p, sums[1][p]);
  }
  __syncthreads();
  const int j = warp / kGroup;
  if (j == 0 || second)
    best_of_tile<T>(s, group * kGroup + warp % kGroup, bias, column_tile + j * distance, frames,
                    keys, scratch);
  __syncthreads();
  const int column = threadIdx.x % kTileColumns, half = threadIdx.x / kTileColumns;
  const int frame = (column_tile + half * distance) * kTileColumns + column;
  if (half < 2 && frame < frames) {
    unsigned long long best = 0;
#pragma unroll
    for (int p = 0; p < kGroup; ++p) best = max(best, scratch.best[half * kGroup + p][column]);
    atomicMax(keys + frame, best);
  }
}

/// How the blocks share the joint's work: a block keeps to one group of tiles, so that their
/// weights can stay in its shared memory, and takes every `row_blocks`-th tile of frames.
struct LookShare {
  int groups, group_blocks, row_blocks;
  __device__ explicit LookShare(const Matrix& output)
      : groups((output.tiles + kGroup - 1) / kGroup),
        group_blocks(min(groups, static_cast<int>(gridDim.x))),
        row_blocks(gridDim.x / group_blocks) {}
  __device__ int group() const { return blockIdx.x % group_blocks; }
};

template <class T>
__device__ void look(const Search& s, const Rows& rows, const Tiles& tiles, Scratch& scratch) {
  const int step = rows.counts[kSteps];
  unsigned long long* next = keys_of(s, step + 1);  // last read two steps ago
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < 2 * s.key_rows; i += gridDim.x * kThreads)
    next[i] = 0;
  const LookShare share(s.model.output);
  const int row_block = blockIdx.x / share.group_blocks;
  if (row_block >= share.row_blocks) return;
  const int frames = rows.counts[kActive] * rows.counts[kWindow];
  const int column_tiles = (frames + kTileColumns - 1) / kTileColumns;
  for (int group = share.group(); group < share.groups; group += share.group_blocks) {
    for (int tile = row_block; tile < column_tiles; tile += 2 * share.row_blocks)
      look_at_tiles<T>(s, rows, tiles, group, tile, share.row_blocks, keys_of(s, step), scratch);
  }
}

// ---------------------------------------------------------------------------------------------------
// advance (one block, or every block on rows of its own)

/// A token of row b at `frame`.
__device__ inline void emit(const Search& s, const Rows& rows, int b, unsigned long long token,
                            int frame, int duration, bool writes) {
  rows.before[b] = rows.label[b];
  rows.label[b] = key_index(token);
  rows.run[b] = rows.last_frame[b] == frame ? rows.run[b] + 1 : 1;
  rows.last_frame[b] = frame;
  rows.score[b] += key_value(token);
  rows.parity[b] ^= 1;
  rows.emitted[b] = 1;
  const int count = rows.count[b]++;
  if (!writes || count >= s.capacity) return;
  const size_t slot = static_cast<size_t>(b) * s.capacity + count;
  s.tokens[slot] = key_index(token);
  s.token_frames[slot] = frame;
  if (s.model.durations > 0) s.token_durations[slot] = duration;
}

/// Follows the decisions of one row over the frames that were looked at, to its next token or past
/// them.
__device__ inline void advance_row(const Search& s, const Rows& rows, int slot,
                                   const unsigned long long* keys, bool writes) {
  const int b = rows.active[slot], window = rows.counts[kWindow];
  int time = rows.time[b];
  const int looked = min(window, rows.length[b] - time);
  const bool tdt = s.model.durations > 0;
  rows.emitted[b] = 0;
  for (int i = 0; i < looked;) {
    const unsigned long long token = __ldcg(keys + slot * window + i);
    const int duration =
        tdt ? s.model.duration_values[key_index(__ldcg(keys + s.key_rows + slot * window + i))] : 0;
    if (key_index(token) == s.model.blank) {
      const int step = tdt ? max(duration, 1) : 1;
      i += step;
      time += step;
      continue;
    }
    emit(s, rows, b, token, time, duration, writes);
    time += duration;
    // max_symbols tokens at one frame: the search must move on.
    if (duration == 0 && rows.run[b] >= s.max_symbols) ++time;
    break;
  }
  rows.time[b] = time;
}

/// Makes the lists of rows for the next phases from the rows in `active`.
__device__ inline void list_rows(const Search& s, const Rows& rows, int candidates) {
  if (threadIdx.x < 32) {
    int active = 0, found = 0;
    for (int base = 0; base < candidates; base += 32) {
      const int slot = base + threadIdx.x;
      const int b = slot < candidates ? rows.active[slot] : 0;
      const bool stays = slot < candidates && rows.time[b] < rows.length[b];
      const bool has_token = stays && rows.emitted[b];
      const unsigned stay_mask = __ballot_sync(0xffffffffu, stays);
      const unsigned token_mask = __ballot_sync(0xffffffffu, has_token);
      const unsigned before = (1u << threadIdx.x) - 1;
      if (stays) rows.active[active + __popc(stay_mask & before)] = b;
      if (has_token) rows.found[found + __popc(token_mask & before)] = b;
      active += __popc(stay_mask);
      found += __popc(token_mask);
    }
    if (threadIdx.x == 0) {
      rows.counts[kActive] = active;
      rows.counts[kFound] = found;
      rows.counts[kPredictions] += found > 0;
      rows.counts[kWindow] = min(max(s.row_budget / max(active, 1), 1), s.max_window);
    }
  }
  __syncthreads();
}

/// The start: every row that has frames "found" the start symbol.
__device__ inline void start_rows(const Search& s, const Rows& rows) {
  for (int b = threadIdx.x; b < s.batch; b += blockDim.x) {
    rows.length[b] = min(max(static_cast<int>(s.lengths[b]), 0), s.frames);
    rows.time[b] = rows.run[b] = rows.count[b] = 0;
    rows.label[b] = rows.before[b] = s.model.blank;
    rows.last_frame[b] = -1;
    rows.parity[b] = rows.emitted[b] = 1;
    rows.score[b] = 0;
    rows.active[b] = b;
  }
  if (threadIdx.x < kCounts) rows.counts[threadIdx.x] = 0;
  __syncthreads();
  list_rows(s, rows, s.batch);
}

/// `writes`: this block stores the tokens.
__device__ inline void advance(const Search& s, const Rows& rows, bool writes) {
  const int candidates = rows.counts[kActive];
  const unsigned long long* keys = keys_of(s, rows.counts[kSteps]);
  for (int slot = threadIdx.x; slot < candidates; slot += blockDim.x)
    advance_row(s, rows, slot, keys, writes);
  __syncthreads();
  if (threadIdx.x == 0) {
    rows.counts[kJointRows] += candidates * rows.counts[kWindow];
    ++rows.counts[kSteps];
  }
  list_rows(s, rows, candidates);
}

/// One block.
__device__ inline void finish(const Search& s, const Rows& rows) {
  for (int b = threadIdx.x; b < s.batch; b += blockDim.x) {
    s.token_counts[b] = min(rows.count[b], s.capacity);
    s.scores[b] = rows.score[b];
    s.nan[b] = __ldcg(s.saw_nan + b) != 0 || rows.score[b] != rows.score[b];
  }
  if (threadIdx.x < kCounts) s.totals[threadIdx.x] = rows.counts[threadIdx.x];
}

/// Marks rows with a NaN in a valid frame.
template <class T>
__device__ void scan_for_nan(const Search& s, int chunks) {
  constexpr int n = 16 / sizeof(T);
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < s.batch * s.frames; row += gridDim.x * kWarps) {
    const int b = row / s.frames;
    if (row % s.frames >= s.lengths[b]) continue;
    const uint4* values =
        static_cast<const uint4*>(s.encoded) + static_cast<size_t>(row) * chunks * 4;
    bool seen = false;
    for (int i = lane; i < chunks * 4; i += 32) {
      const uint4 part = __ldg(values + i);
      const T* x = reinterpret_cast<const T*>(&part);
#pragma unroll
      for (int j = 0; j < n; ++j) seen |= to_float(x[j]) != to_float(x[j]);
    }
    if (seen) s.saw_nan[b] = 1;
  }
}

// ---------------------------------------------------------------------------------------------------
// predict

/// What a block computes in one pass: some batch tiles of its own tile of outputs, and one of a
/// tile that has no block of its own (160 tiles of an LSTM of 640 units on 132 multiprocessors).
struct Pass {
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

/// The passes of this block over `tiles` x `columns` (batch tiles).
struct Passes {
  int tiles, columns;

  __device__ Pass operator[](int index) const {
    const int grid = gridDim.x, block = blockIdx.x, first = index * kOwnColumns;
    Pass pass{block, first, 0, -1, 0};
    if (block < tiles) pass.columns = min(max(columns - first, 0), kOwnColumns);
    const int item = block + index * grid;  // of the tiles beyond the grid
    if (columns > 0 && item < (tiles - grid) * columns) {
      pass.other_tile = grid + item / columns;
      pass.other_column = item % columns;
    }
    return pass;
  }
  __device__ static bool empty(const Pass& pass) {
    return pass.columns == 0 && pass.other_tile < 0;
  }
};

/// Adds weights x inputs for the pairs of a pass. inputs[p]: this lane's row for pair p, or
/// nullptr.
template <class T>
__device__ inline void accumulate(const Matrix& matrix, const Tiles& tiles, const Pass& pass,
                                  const void* const (&inputs)[kPass], Accumulator (&sums)[kPass]) {
  const int warp = threadIdx.x / 32;
  const uint4* own = pass.columns > 0 ? tiles.at(matrix, pass.tile) : nullptr;
  const uint4* other = pass.other_tile >= 0 ? tiles.at(matrix, pass.other_tile) : nullptr;
  for (int first = warp; first < matrix.chunks; first += 2 * kWarps) {
    uint4 x[2][kPass] = {}, upper[2] = {}, lower[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
#pragma unroll
      for (int p = 0; p < kPass; ++p) {
        if (inputs[p] != nullptr) x[i][p] = load_fresh(inputs[p], chunk);
      }
      if (other == nullptr) continue;
      upper[i] = other[chunk * kChunkVectors];
      lower[i] = other[chunk * kChunkVectors + 32];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int chunk = first + i * kWarps;
      if (chunk >= matrix.chunks) continue;
      if (other != nullptr)
        multiply_chunk<T>(sums[kOwnColumns], upper[i], lower[i], x[i][kOwnColumns]);
      if (own == nullptr) continue;
      const uint4 own_upper = own[chunk * kChunkVectors],
                  own_lower = own[chunk * kChunkVectors + 32];
#pragma unroll
      for (int p = 0; p < kOwnColumns; ++p) {
        if (p < pass.columns) multiply_chunk<T>(sums[p], own_upper, own_lower, x[i][p]);
      }
    }
  }
}

/// State of row b: h of `layer`, after its last token (`fresh`) or before it.
template <class T>
__device__ inline T* state_row(const Search& s, const Rows& rows, int layer, int b, bool fresh) {
  const int buffer = rows.parity[b] ^ (fresh ? 0 : 1);
  const size_t width = static_cast<size_t>(s.model.projection.chunks) * kChunkBytes / sizeof(T);
  return static_cast<T*>(s.h) + ((static_cast<size_t>(layer) * 2 + buffer) * s.batch + b) * width;
}

/// This lane's state rows for the pairs of a pass, among the first `limit` rows with a token.
template <class T>
__device__ inline void lane_inputs(const Search& s, const Rows& rows, const Pass& pass, int limit,
                                   int layer, bool fresh, const void* (&inputs)[kPass]) {
#pragma unroll
  for (int p = 0; p < kPass; ++p) {
    const int slot = pass.column_of(p) * kTileColumns + threadIdx.x % 32 / 4;
    inputs[p] = pass.has(p) && slot < limit ? state_row<T>(s, rows, layer, rows.found[slot], fresh)
                                            : nullptr;
  }
}

__device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/// What a lane's cell needs beside the sums: lane 4 r + q of a pair's warp has unit r % 4 and
/// column 2 q + r / 4.
struct Cell {
  int b = -1;                              // row, -1: none
  float below[4], bias_ih[4], bias_hh[4];  // by gate
  float* state;
  void* output;

  template <class T>
  __device__ void load(const Search& s, const Rows& rows, int layer, int tile, int column_tile) {
    const int lane = threadIdx.x % 32, r = lane / 4;
    const int slot = column_tile * kTileColumns + lane % 4 * 2 + r / 4;
    if (slot >= rows.counts[kFound]) return;
    b = rows.found[slot];
    const int outputs = s.model.recurrent[layer].tiles * kTileRows;
    const T* first =
        static_cast<const T*>(s.model.first_gates) + static_cast<size_t>(rows.label[b]) * outputs;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int output = tile * kTileRows + 4 * k + r % 4;
      below[k] = layer == 0 ? to_float(first[output]) : 0;
      bias_ih[k] = __ldg(s.model.bias_ih[layer] + output);
      bias_hh[k] = __ldg(s.model.bias_hh[layer] + output);
    }
    const int unit = tile * 4 + r % 4;
    state = s.c + (static_cast<size_t>(layer) * s.batch + b) * s.model.units + unit;
    output = state_row<T>(s, rows, layer, b, true) + unit;
  }

  /// own: sums of this lane over W_hh, rounded as LibTorch's cell does.
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

/// The four gates of this lane's cell out of a pair's sums. Lanes of r < 4 hold the gates i and g
/// of their unit for two columns, lanes of r >= 4 its f and o.
template <class T>
__device__ inline void gates_of_cell(const Partials& partials, int pair, float (&gates)[4]) {
  const float4 sums = total(partials, pair);
  const bool upper = threadIdx.x % 32 < 16;
  // Keep the even column and give the odd one away, or the other way round.
  const float kept[2] = {upper ? sums.x : sums.y, upper ? sums.z : sums.w};
  const float given[2] = {upper ? sums.y : sums.x, upper ? sums.w : sums.z};
  const float taken[2] = {__shfl_xor_sync(0xffffffffu, given[0], 16),
                          __shfl_xor_sync(0xffffffffu, given[1], 16)};
  gates[0] = rounded<T>(upper ? kept[0] : taken[0]);
  gates[1] = rounded<T>(upper ? taken[0] : kept[0]);
  gates[2] = rounded<T>(upper ? kept[1] : taken[1]);
  gates[3] = rounded<T>(upper ? taken[1] : kept[1]);
}

/// W_hh h for the pairs of a pass: does not depend on the layer below.
template <class T>
__device__ inline void recur(const Search& s, const Rows& rows, int layer, const Tiles& tiles,
                             const Pass& pass, Accumulator (&sums)[kPass]) {
  const void* inputs[kPass];
  lane_inputs<T>(s, rows, pass, rows.counts[kFound], layer, false, inputs);
  accumulate<T>(s.model.recurrent[layer], tiles, pass, inputs, sums);
}

/// The rest of a pass.
template <class T>
__device__ inline void complete(const Search& s, const Rows& rows, int layer, const Tiles& input,
                                const Pass& pass, const Accumulator (&own)[kPass],
                                Scratch& scratch) {
  const int warp = threadIdx.x / 32;
  Cell cell;
  float old = 0;
  if (warp < kPass && pass.has(warp)) {
    cell.load<T>(s, rows, layer, pass.tile_of(warp), pass.column_of(warp));
    if (cell.b >= 0) old = __ldcg(cell.state);
  }
  Accumulator below[kPass] = {};
  if (layer > 0) {
    const void* inputs[kPass];
    lane_inputs<T>(s, rows, pass, rows.counts[kFound], layer - 1, true, inputs);
    accumulate<T>(s.model.input[layer], input, pass, inputs, below);
  }
  __syncthreads();  // the last use of the scratch memory is over
#pragma unroll
  for (int p = 0; p < kPass; ++p) {
    if (!pass.has(p)) continue;
    store(scratch.partials, p, own[p]);
    if (layer > 0) store(scratch.partials, kPass + p, below[p]);
  }
  __syncthreads();
  if (warp >= kPass || !pass.has(warp)) return;
  float sums[4];
  gates_of_cell<T>(scratch.partials, warp, sums);
  if (layer > 0) gates_of_cell<T>(scratch.partials, kPass + warp, cell.below);
  if (cell.b >= 0) cell.update<T>(sums, old);
}

__device__ inline Passes lstm_passes(const Search& s, const Rows& rows, int layer) {
  return {s.model.recurrent[layer].tiles, (rows.counts[kFound] + kTileColumns - 1) / kTileColumns};
}

/// One LSTM layer for the rows that found a token. own: recur() of the first pass.
template <class T>
__device__ void lstm(const Search& s, const Rows& rows, int layer, const Tiles& recurrent,
                     const Tiles& input, Accumulator (&own)[kPass], Scratch& scratch) {
  const Passes passes = lstm_passes(s, rows, layer);
  Pass pass = passes[0];
  for (int i = 1; !Passes::empty(pass); ++i) {
    complete<T>(s, rows, layer, input, pass, own, scratch);
    pass = passes[i];
    if (Passes::empty(pass)) break;
#pragma unroll
    for (int p = 0; p < kPass; ++p) {
#pragma unroll
      for (float& x : own[p]) x = 0;
    }
    recur<T>(s, rows, layer, recurrent, pass, own);
  }
}

/// How the blocks share the projection: a block keeps to one tile of outputs.
struct ProjectShare {
  int tile_blocks, row_blocks;
  __device__ explicit ProjectShare(const Matrix& projection)
      : tile_blocks(min(projection.tiles, static_cast<int>(gridDim.x))),
        row_blocks(gridDim.x / tile_blocks) {}
  __device__ int tile() const { return blockIdx.x % tile_blocks; }
};

/// g of the rows that found a token.
template <class T>
__device__ void project(const Search& s, const Rows& rows, const Tiles& tiles, Scratch& scratch) {
  const Matrix& matrix = s.model.projection;
  const ProjectShare share(matrix);
  const int row_block = blockIdx.x / share.tile_blocks, found = rows.counts[kFound];
  if (row_block >= share.row_blocks) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int columns = (found + kTileColumns - 1) / kTileColumns;
  const int each = (columns + share.row_blocks - 1) / share.row_blocks;
  const int end = min(columns, (row_block + 1) * each);
  const int width = s.model.output.chunks * kChunkBytes / static_cast<int>(sizeof(T));
  for (int tile = share.tile(); tile < matrix.tiles; tile += share.tile_blocks) {
    const int output = tile * kTileRows + lane / 4;
    for (int first = row_block * each; first < end; first += kOwnColumns) {
      const Pass pass{tile, first, min(end - first, kOwnColumns), -1, 0};
      const float bias[2] = {__ldg(s.model.projection_bias + output),
                             __ldg(s.model.projection_bias + output + 8)};
      Accumulator sums[kPass] = {};
      const void* inputs[kPass];
      lane_inputs<T>(s, rows, pass, found, s.model.layers - 1, true, inputs);
      accumulate<T>(matrix, tiles, pass, inputs, sums);
      __syncthreads();  // the last use of the scratch memory is over
#pragma unroll
      for (int p = 0; p < kOwnColumns; ++p) {
        if (p < pass.columns) store(scratch.partials, p, sums[p]);
      }
      __syncthreads();
      if (warp >= pass.columns) continue;
      const float4 sum = total(scratch.partials, warp);
      const float values[2][2] = {{sum.x, sum.y}, {sum.z, sum.w}};  // [half][column]
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int slot = (first + warp) * kTileColumns + lane % 4 * 2 + odd;
          if (slot >= found || output + 8 * half >= width) continue;
          static_cast<T*>(s.g)[static_cast<size_t>(rows.found[slot]) * width + output + 8 * half] =
              from_float<T>(values[half][odd] + bias[half]);
        }
      }
    }
  }
}

/// g of the rows that found a token, for a stateless prediction network.
template <class T>
__device__ void look_up(const Search& s, const Rows& rows) {
  const int width = s.model.output.chunks * kChunkBytes / static_cast<int>(sizeof(T));
  const int items = rows.counts[kFound] * width;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < items; i += gridDim.x * kThreads) {
    const int b = rows.found[i / width], output = i % width;
    float sum = s.model.projection_bias[output];
    const int labels[kMaxContext] = {rows.label[b], rows.before[b]};
    for (int k = 0; k < s.model.context; ++k)
      sum += s.model.label_rows[k][static_cast<size_t>(labels[k]) * width + output];
    static_cast<T*>(s.g)[static_cast<size_t>(b) * width + output] = from_float<T>(sum);
  }
}

}  // namespace rtfx::fused
