// A block of four warps takes 64 queries of a head, and each warp takes 16 of them. The block walks
// over the keys, 32 at a time. The score of query i and key j is (q_i + u) k_j + (q_i + v) p_(i-j).
// A warp's 16 queries and 32 keys are at 47 different distances. The warp multiplies its queries
// with the positions of these distances. Through shared memory, it then picks the product that
// belongs to each key.
#include <algorithm>

#include "base/gpu/check.h"
#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/mma.cuh"
#include "base/gpu/rounding.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {
namespace {

constexpr int kQueries = 64, kKeys = 32, kWarps = 4, kThreads = 32 * kWarps;
constexpr int kBlocks = 3;  // blocks per multiprocessor: one computes while others load
constexpr int kWarpQueries = kQueries / kWarps;
constexpr int kPositions = kQueries + kKeys;  // distances of a block's queries and keys, plus one
constexpr int kBand = kWarpQueries + kKeys;   // distances of a warp's queries and keys, plus one
constexpr int kBandStride = kBand + 4;        // a stride that avoids bank conflicts

/// Rows of shared memory are 16 bytes longer than a head is wide: ldmatrix then reads eight rows
/// from different banks.
template <int kWidth>
constexpr int kStride = kWidth + 8;

template <int kWidth>
constexpr size_t kShared = sizeof(uint16_t) * kStride<kWidth>*(2 * kKeys + kPositions) +
                           sizeof(float) * kWarps* kWarpQueries* kBandStride;

/// kWidth is the width of a head in shared memory. With kExact, it is the head's own width.
template <class T, int kWidth, bool kExact, int kBytes>
struct Rows {
  const T* values;
  int64_t stride;
  int end;  // rows from 0 to end - 1 exist
  int head_width;
  int start = 0, ring = 0;  // row r is in slot (start + r) % ring; ring 0: in slot r

  /// Enqueues copies of `count` rows from `first` on to the shared rows from `to` on. Rows that do
  /// not exist become zeros.
  template <bool kRing = false>
  __device__ void copy(T* shared, int to, int first, int count) const {
    constexpr int kElements = kBytes / sizeof(T);
    const int per_row = (kExact ? kWidth : head_width) / kElements;
    for (int i = threadIdx.x; i < count * per_row; i += kThreads) {
      const int row = i / per_row, column = i % per_row * kElements;
      const bool valid = first + row >= 0 && first + row < end;
      int slot = valid ? first + row : 0;
      if constexpr (kRing) slot = start + slot < ring ? start + slot : start + slot - ring;
      copy_async<kBytes>(shared + (to + row) * kStride<kWidth> + column,
                         values + slot * stride + column, valid);
    }
  }
};

/// Loads two neighbours of a row in the form that the registers of mma have. They are zeros where
/// not `valid`.
template <class T>
__device__ float2 load_pair(const T* from, bool valid) {
  if (!valid) return make_float2(0, 0);
  const auto bits = *reinterpret_cast<const uint32_t*>(from);
  const T* const pair = reinterpret_cast<const T*>(&bits);
  return make_float2(to_float(pair[0]), to_float(pair[1]));
}

/// The keys that a query sees: [begin, end).
struct Window {
  int begin, end;
};
__device__ Window window_of(const RelativeAttentionInput& in, int query, int length) {
  const int first = query / in.chunk * in.chunk;
  return {in.left < 0 ? 0 : max(0, first - in.left),
          in.right < 0 ? length : min(length, first + in.chunk + in.right)};
}

/// The keys and values of an utterance. Key 0 is the first one that any query may see.
template <class Source>
struct KeysAndValues {
  Source keys, values;
  int past = 0;      // query q is key `past` + q
  Window all_see{};  // in streams, the keys that all queries see
};

/// Returns the keys and values of the utterance's own frames. `queries` is query 0 of the head.
template <class Source, class T>
__device__ KeysAndValues<Source> of_utterance(const RelativeAttentionInput& in, const T* queries,
                                              int length, int head_width) {
  const int64_t stride = 3 * in.width;
  return {{queries + in.width, stride, length, head_width},
          {queries + 2 * in.width, stride, length, head_width}};
}

/// Returns the keys and values in the stream's ring, which include frames before the step.
template <class Source, class T>
__device__ KeysAndValues<Source> of_stream(const RelativeAttentionInput& in,
                                           const LayerRings& rings, int utterance, int head,
                                           int length, int head_width) {
  const int past = rings.attended;
  const int64_t encoded = rings.encoded[utterance];
  const int ring = past + rings.frames;
  const T* const first = static_cast<const T*>(rings.keys_values) +
                         rings.slots[utterance] * ring * 2 * in.width + head * head_width;
  Source keys{first, 2 * in.width, past + length, head_width};
  keys.ring = ring;
  keys.start = static_cast<int>((encoded + rings.frames) % ring);  // slot of frame encoded - past
  Source values = keys;
  values.values += in.width;
  return {
      keys, values, past, {encoded < past ? past - static_cast<int>(encoded) : 0, past + length}};
}

/// The queries of a warp as operands of mma, once with each of the two biases. Lane l has parts of
/// the queries l / 4 and l / 4 + 8.
template <int kDepth>
struct WarpQueries {
  uint32_t with_u[kDepth][4], with_v[kDepth][4];
};

/// Loads the queries of a warp. `own_query` is the lane's first query. Zeros stand for queries
/// beyond `length`.
template <class T, int kWidth, bool kExact>
__device__ void load_queries(WarpQueries<kWidth / 16>& to, const RelativeAttentionInput& in,
                             const T* queries, int head, int head_width, int own_query,
                             int length) {
  const int lane = threadIdx.x % 32;
  const int64_t stride = 3 * in.width;
#pragma unroll
  for (int d = 0; d < kWidth / 16; ++d) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int column = 16 * d + 8 * side + lane % 4 * 2;
      const bool inside = kExact || column < head_width;
      const int bias = head * head_width + column;
      const float2 u = load_pair(static_cast<const T*>(in.bias_u) + bias, inside);
      const float2 v = load_pair(static_cast<const T*>(in.bias_v) + bias, inside);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = own_query + 8 * half;
        const float2 q = load_pair(queries + row * stride + column, inside && row < length);
        to.with_u[d][2 * side + half] = pack_pair(q.x + u.x, q.y + u.y, T());
        to.with_v[d][2 * side + half] = pack_pair(q.x + v.x, q.y + v.y, T());
      }
    }
  }
}

/// Adds queries x rows^T for 16 rows of shared memory from row `first` on. The products of the
/// first eight rows are added to `left`, those of the others to `right`.
template <class T, int kWidth>
__device__ void multiply_rows(float (&left)[4], float (&right)[4],
                              const uint32_t (&queries)[kWidth / 16][4], const T* rows, int first) {
  const int lane = threadIdx.x % 32;
  const int row = lane / 16 * 8 + lane % 8, column = lane / 8 % 2 * 8;
  const T* const own = rows + (first + row) * kStride<kWidth> + column;
#pragma unroll
  for (int d = 0; d < kWidth / 16; ++d) {
    uint32_t tiles[4];
    load_tiles(tiles, own + 16 * d);
    multiply_add(left, queries[d], tiles[0], tiles[1], T());
    multiply_add(right, queries[d], tiles[2], tiles[3], T());
  }
}

/// Writes (q + v) p for a warp's queries and all their distances to its band. Column c belongs to
/// query q and key j of the warp with c = j - q + 15. `ring_begin` is the slot of the first
/// position of this iteration.
template <class T, int kWidth>
__device__ void multiply_positions(float* band, const uint32_t (&with_v)[kWidth / 16][4],
                                   const T* positions, int ring_begin) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int c = 0; c < kBand; c += 16) {
    const int slot = (ring_begin + kQueries - kWarpQueries * (warp + 1) + c) % kPositions;
    float products[2][4] = {};
    multiply_rows<T, kWidth>(products[0], products[1], with_v, positions, slot);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const to = band + lane / 4 * kBandStride + c + 8 * half + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(products[half][0], products[half][1]);
      *reinterpret_cast<float2*>(to + 8 * kBandStride) =
          make_float2(products[half][2], products[half][3]);
    }
  }
}

/// The scores of a warp's queries and kKeys keys. Element i of tile n belongs to the lane's query i
/// / 2 and to key 8 n + lane % 4 * 2 + i % 2.
using Scores = float[kKeys / 8][4];

/// Computes scores = (q + u) k.
template <class T, int kWidth>
__device__ void multiply_keys(Scores& scores, const uint32_t (&with_u)[kWidth / 16][4],
                              const T* keys) {
#pragma unroll
  for (int n = 0; n < kKeys; n += 16) {
    multiply_rows<T, kWidth>(scores[n / 8], scores[n / 8 + 1], with_u, keys, n);
  }
}

/// Adds the products of the distances, and scales. Keys that a query does not see get minus
/// infinity. `key` is the first of the keys.
__device__ inline void add_position_scores(Scores& scores, const float* band, float scale, int key,
                                           const Window (&windows)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int half = i / 2, query = lane / 4 + 8 * half, column = 8 * n + lane % 4 * 2 + i % 2;
      const float score =
          scale * (scores[n][i] + band[query * kBandStride + column - query + kWarpQueries - 1]);
      const int at = key + column;
      scores[n][i] = at >= windows[half].begin && at < windows[half].end ? score : -INFINITY;
    }
  }
}

/// The online softmax of the lane's two queries, with powers of 2.
struct OnlineSoftmax {
  float most[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // sums over this lane's keys

  /// Turns scores into weights. `rescale` returns the factors for earlier sums.
  __device__ void add(Scores& scores, float (&rescale)[2]) {
    float highest[2] = {most[0], most[1]};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) highest[i / 2] = fmaxf(highest[i / 2], scores[n][i]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      highest[half] = fmaxf(highest[half], __shfl_xor_sync(~0u, highest[half], 1));
      highest[half] = fmaxf(highest[half], __shfl_xor_sync(~0u, highest[half], 2));
      const float base = highest[half] == -INFINITY ? 0 : highest[half];  // no key seen so far
      rescale[half] = exp2f(most[half] - base);
      most[half] = highest[half];
      highest[half] = base;
      sum[half] *= rescale[half];
    }
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = exp2f(scores[n][i] - highest[i / 2]);
        sum[i / 2] += scores[n][i];
      }
    }
  }
};

/// Adds weights x values to the context of a warp's queries.
template <class T, int kWidth>
__device__ void multiply_values(float (&context)[kWidth / 8][4], const Scores& scores,
                                const T* values) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    const uint32_t weights[4] = {pack_pair(scores[2 * k][0], scores[2 * k][1], T()),
                                 pack_pair(scores[2 * k][2], scores[2 * k][3], T()),
                                 pack_pair(scores[2 * k + 1][0], scores[2 * k + 1][1], T()),
                                 pack_pair(scores[2 * k + 1][2], scores[2 * k + 1][3], T())};
    const T* const row = values + (16 * k + lane % 16) * kStride<kWidth> + lane / 16 * 8;
#pragma unroll
    for (int d = 0; d < kWidth / 16; ++d) {
      uint32_t tiles[4];
      load_transposed_tiles(tiles, row + 16 * d);
      multiply_add(context[2 * d], weights, tiles[0], tiles[1], T());
      multiply_add(context[2 * d + 1], weights, tiles[2], tiles[3], T());
    }
  }
}

/// Divides the context by the sum of all weights and stores it. `output` is row 0 of the head.
template <class T, int kWidth>
__device__ void store_context(T* output, int width, int head_width, int own_query, int length,
                              const float (&context)[kWidth / 8][4], OnlineSoftmax& softmax) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float& sum = softmax.sum[half];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const int query = own_query + 8 * half;
    if (query >= length) continue;
    const float inverse = 1 / sum;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const int column = 8 * n + lane % 4 * 2;
      if (column < head_width) {
        *reinterpret_cast<uint32_t*>(output + static_cast<int64_t>(query) * width + column) =
            pack_pair(context[n][2 * half] * inverse, context[n][2 * half + 1] * inverse, T());
      }
    }
  }
}

/// With kStreams, `rings` holds keys and values, also those of frames before the step.
template <class T, int kWidth, bool kExact, int kBytes, bool kStreams>
__global__ void __launch_bounds__(kThreads, kBlocks)
    attend_kernel(const RelativeAttentionInput in, const RowLayout layout, const LayerRings rings) {
  await_previous();
  constexpr int kRowStride = kStride<kWidth>;
  extern __shared__ __align__(16) unsigned char memory[];
  T* const keys = reinterpret_cast<T*>(memory);
  T* const values = keys + kKeys * kRowStride;
  // The positions are a ring, because 32 of them change when the loop goes on by 32 keys.
  T* const positions = values + kKeys * kRowStride;
  float* const bands = reinterpret_cast<float*>(positions + kPositions * kRowStride);

  const int utterance = blockIdx.z, head = blockIdx.y, first = blockIdx.x * kQueries;
  const int length = layout.lengths[utterance];
  if (first >= length) return;
  const int head_width = kExact ? kWidth : in.width / in.heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t stride = 3 * in.width;
  const T* const queries =
      static_cast<const T*>(in.qkv) + layout.offsets[utterance] * stride + head * head_width;
  using Source = Rows<T, kWidth, kExact, kBytes>;
  KeysAndValues<Source> all;
  if constexpr (kStreams) {
    all = of_stream<Source, T>(in, rings, utterance, head, length, head_width);
  } else {
    all = of_utterance<Source>(in, queries, length, head_width);
  }
  const auto seen_by = [&](int query) {
    return kStreams ? all.all_see : window_of(in, query, length);
  };
  const Source table{static_cast<const T*>(in.positions) + head * head_width, in.width,
                     2 * in.reach - 1, head_width};

  if constexpr (!kExact) {  // elements beyond a head's width stay zero
    for (int i = threadIdx.x; i < (2 * kKeys + kPositions) * kRowStride; i += kThreads)
      keys[i] = from_float<T>(0);
    __syncthreads();
  }
  const int begin = seen_by(first).begin;
  const int end = seen_by(min(first + kQueries, length) - 1).end;
  // The first position is that of the block's last query and the first key.
  const int first_position = in.reach - kQueries - all.past - first + begin;
  all.keys.template copy<kStreams>(keys, 0, begin, kKeys);
  table.copy(positions, 0, first_position, kPositions);
  commit_copies();
  all.values.template copy<kStreams>(values, 0, begin, kKeys);
  commit_copies();

  const int own_query = first + warp * kWarpQueries + lane / 4;
  WarpQueries<kWidth / 16> own;
  load_queries<T, kWidth, kExact>(own, in, queries, head, head_width, own_query, length);
  float context[kWidth / 8][4] = {};
  OnlineSoftmax softmax;
  const Window windows[2] = {seen_by(own_query), seen_by(own_query + 8)};
  const float scale = rsqrtf(static_cast<float>(head_width)) * 1.44269504f;  // exp2 in place of exp
  float* const band = bands + warp * kWarpQueries * kBandStride;

  int ring_begin = 0;  // slot of the first position of this iteration
  for (int key = begin; key < end; key += kKeys) {
    await_copies<1>();
    __syncthreads();
    multiply_positions<T, kWidth>(band, own.with_v, positions, ring_begin);
    Scores scores = {};
    multiply_keys<T, kWidth>(scores, own.with_u, keys);
    __syncwarp();

    add_position_scores(scores, band, scale, key, windows);
    float rescale[2];
    softmax.add(scores, rescale);
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) context[n][i] *= rescale[i / 2];
    }

    __syncthreads();  // all have read keys and positions
    const bool more = key + kKeys < end;
    if (more) {
      all.keys.template copy<kStreams>(keys, 0, key + kKeys, kKeys);
      table.copy(positions, ring_begin, first_position + key - begin + kPositions, kKeys);
      ring_begin = (ring_begin + kKeys) % kPositions;
    }
    commit_copies();
    await_copies<1>();
    __syncthreads();
    multiply_values<T, kWidth>(context, scores, values);
    if (more) {
      __syncthreads();  // all have read the values
      all.values.template copy<kStreams>(values, 0, key + kKeys, kKeys);
    }
    commit_copies();
  }

  T* const output = static_cast<T*>(in.output) +
                    static_cast<int64_t>(layout.offsets[utterance]) * in.width + head * head_width;
  store_context<T, kWidth>(output, in.width, head_width, own_query, length, context, softmax);
}

template <class T, int kWidth, bool kExact, int kBytes>
void launch(const RelativeAttentionInput& in, const RowLayout& layout, cudaStream_t stream) {
  const auto kernel = in.rings == nullptr ? attend_kernel<T, kWidth, kExact, kBytes, false>
                                          : attend_kernel<T, kWidth, kExact, kBytes, true>;
  RTFX_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(kShared<kWidth>)));
  const dim3 grid(static_cast<unsigned>(ceil_div(layout.longest, kQueries)),
                  static_cast<unsigned>(in.heads), static_cast<unsigned>(layout.utterances));
  launch_dependent(kernel, grid, kThreads, kShared<kWidth>, stream, in, layout,
                   in.rings == nullptr ? LayerRings{} : *in.rings);
}

template <class T>
void launch(const RelativeAttentionInput& in, const RowLayout& layout, cudaStream_t stream) {
  const int width = in.width / in.heads;
  if (width == 128) return launch<T, 128, true, 16>(in, layout, stream);
  if (width == 64) return launch<T, 64, true, 16>(in, layout, stream);
  // Rows of other heads are aligned to 8 bytes, not always to 16.
  if (width <= 48) return launch<T, 48, false, 8>(in, layout, stream);
  launch<T, 128, false, 8>(in, layout, stream);
}

}  // namespace

void attend(Precision precision, const RelativeAttentionInput& in, const RowLayout& layout,
            cudaStream_t stream) {
  if (precision == Precision::bf16) {
    launch<__nv_bfloat16>(in, layout, stream);
  } else {
    launch<__half>(in, layout, stream);
  }
}

}  // namespace rtfx
