// Kernels that take the rows of a matrix one by one: norms, activation, and the layout of rows.
#include <cuda_fp8.h>

#include <algorithm>

#include "base/gpu/activation.h"
#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"
#include "models/encoder/epsilons.h"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/vectors.cuh"

namespace rtfx {
namespace {

constexpr auto kEpsilon = static_cast<float>(kNormEpsilon);
constexpr float kLargestE4m3 = 448;
constexpr int kThreads = 128;

/// A row in the registers of a warp. Lane l holds the vectors l, l + 32, ... of eight elements.
/// With kFull, every lane has kVectors vectors, so that no code depends on their number.
template <int kVectors, bool kFull>
struct Row {
  float values[kVectors][8];
  int vectors;  // number of vectors of the whole row

  __device__ bool has(int i) const { return kFull || i * 32 + threadIdx.x % 32 < vectors; }
  __device__ int column(int i) const { return (i * 32 + static_cast<int>(threadIdx.x % 32)) * 8; }

  /// A row whose loads may not have ended.
  struct Loaded {
    uint4 bytes[kVectors];
  };

  template <class T>
  __device__ Loaded load(const T* from) const {
    Loaded loaded;
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      loaded.bytes[i] = has(i) ? *reinterpret_cast<const uint4*>(from + column(i)) : uint4{};
    return loaded;
  }

  template <class T>
  __device__ void take(const Loaded& loaded) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) unpack_vector<T>(values[i], loaded.bytes[i]);
  }

  template <class T>
  __device__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (has(i)) store_vector(to + column(i), values[i]);
    }
  }

  /// Stores the row as the input of a product, as 8-bit floats if `to` has scales.
  template <class T>
  __device__ void store(const ProductInput& to, int64_t row) const {
    if (to.scales == nullptr) return store(static_cast<T*>(to.values) + row * vectors * 8);
    float greatest = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      for (const float x : values[i]) greatest = fmaxf(greatest, fabsf(x));
    }
    const float scale = fmaxf(warp_max(greatest), 1e-12f) / kLargestE4m3;
    if (threadIdx.x % 32 == 0) to.scales[row] = scale;
    auto* const bytes = static_cast<__nv_fp8_storage_t*>(to.values) + row * vectors * 8;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (has(i)) store_e4m3(bytes + column(i), values[i], 1 / scale);
    }
  }

  template <class T>
  __device__ void norm(const NormWeights& weights) {
    const float width = static_cast<float>(vectors * 8);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      for (const float x : values[i]) sum += x;
    }
    const float mean = warp_sum(sum) / width;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!has(i)) continue;
      for (const float x : values[i]) squares += (x - mean) * (x - mean);
    }
    const float inverse = rsqrtf(warp_sum(squares) / width + kEpsilon);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!has(i)) continue;
      float weight[8], bias[8];
      load_vector(weight, static_cast<const T*>(weights.weight) + column(i));
      load_vector(bias, static_cast<const T*>(weights.bias) + column(i));
#pragma unroll
      for (int e = 0; e < 8; ++e)
        values[i][e] = (values[i][e] - mean) * inverse * weight[e] + bias[e];
    }
  }

  /// Rounds the values to T.
  template <class T>
  __device__ void round() {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) round_vector<T>(values[i]);
  }
};

struct Norms {
  void* x;
  int64_t rows;
  int32_t width;
  NormWeights norm, next;  // next has null weights where there is no second norm
  ProductInput y;
};

constexpr int kNormBlocks = 6;  // blocks per multiprocessor, unless rows are very wide
constexpr int64_t kAllNormBlocks = 132 * kNormBlocks;  // number of such blocks on an H100

/// A warp takes several rows, one after the other, and loads a row while it computes the one
/// before.
template <class T, int kVectors, bool kFull>
__global__ void __launch_bounds__(kThreads, kVectors <= 4 ? kNormBlocks : 1)
    norm_kernel(const Norms in) {
  await_previous();
  // The shuffle tells the compiler that all lanes have the same number.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int step = gridDim.x * (kThreads / 32), rows = static_cast<int>(in.rows);
  Row<kVectors, kFull> values;
  values.vectors = in.width / 8;
  typename Row<kVectors, kFull>::Loaded loaded;
  int row = blockIdx.x * (kThreads / 32) + warp;
  const auto row_of_x = [&](int r) {
    return static_cast<T*>(in.x) + static_cast<int64_t>(r) * in.width;
  };
  if (row < rows) loaded = values.load(row_of_x(row));
  for (; row < rows; row += step) {
    values.template take<T>(loaded);
    if (row + step < rows) loaded = values.load(row_of_x(row + step));
    values.template norm<T>(in.norm);
    if (in.next.weight != nullptr) {
      values.template round<T>();
      values.store(row_of_x(row));
      values.template norm<T>(in.next);
    }
    values.template store<T>(in.y, row);
  }
}

template <class T, int kVectors, bool kFull>
__global__ void __launch_bounds__(kThreads)
    padded_norm_kernel(const T* x, int32_t width, NormWeights norm, RowLayout layout, T* padded) {
  await_previous();
  const int frame = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, utterance = blockIdx.y;
  Row<kVectors, kFull> values;
  values.vectors = width / 8;
  if (frame >= layout.lengths[utterance]) return;
  values.template take<T>(
      values.load(x + static_cast<int64_t>(layout.offsets[utterance] + frame) * width));
  values.template norm<T>(norm);
  values.store(padded + (static_cast<int64_t>(utterance) * layout.longest + frame) * width);
}

/// Calls work.template operator()<T, vectors per lane, whether each lane has that many>().
template <class Work>
void for_width(Precision precision, int32_t width, const Work& work) {
  const auto with = [&]<class T>(T) {
    const auto with_vectors = [&]<int kVectors> {
      if (width == kVectors * 256) return work.template operator()<T, kVectors, true>();
      work.template operator()<T, kVectors, false>();
    };
    const int vectors = ceil_div(width / 8, 32);
    if (vectors <= 1) return with_vectors.template operator()<1>();
    if (vectors <= 2) return with_vectors.template operator()<2>();
    if (vectors <= 4) return with_vectors.template operator()<4>();
    with_vectors.template operator()<kWidestNorm / 256>();
  };
  precision == Precision::bf16 ? with(__nv_bfloat16()) : with(__half());
}

void launch_norms(Precision precision, const Norms& in, cudaStream_t stream) {
  const int64_t blocks = std::min(ceil_div<int64_t>(in.rows, kThreads / 32), kAllNormBlocks);
  for_width(precision, in.width, [&]<class T, int kVectors, bool kFull>() {
    launch_dependent(norm_kernel<T, kVectors, kFull>, static_cast<unsigned>(blocks), kThreads, 0,
                     stream, in);
  });
}

/// Uses one block per row where rows get a scale, since the scale depends on the whole row.
template <class T, int kVectors>
__global__ void __launch_bounds__(kThreads)
    scaled_silu_kernel(const T* x, int32_t width, ProductInput y) {
  await_previous();
  __shared__ float of_warps[kThreads / 32];
  const int64_t row = blockIdx.x;
  float values[kVectors][8], greatest = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kThreads + static_cast<int>(threadIdx.x)) * 8;
    if (column >= width) continue;
    load_vector(values[i], x + row * width + column);
    for (float& v : values[i]) {
      v = fast_silu(v);
      greatest = fmaxf(greatest, fabsf(v));
    }
  }
  greatest = warp_max(greatest);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = greatest;
  __syncthreads();
  for (const float other : of_warps) greatest = fmaxf(greatest, other);
  const float scale = fmaxf(greatest, 1e-12f) / kLargestE4m3;
  if (threadIdx.x == 0) y.scales[row] = scale;
  auto* const bytes = static_cast<__nv_fp8_storage_t*>(y.values) + row * width;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kThreads + static_cast<int>(threadIdx.x)) * 8;
    if (column < width) store_e4m3(bytes + column, values[i], 1 / scale);
  }
}

template <class T>
__global__ void __launch_bounds__(256) silu_kernel(const T* x, int64_t vectors, T* y) {
  await_previous();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors;
       i += step) {
    float values[8];
    load_vector(values, x + i * 8);
    for (float& v : values) v = fast_silu(v);
    store_vector(y + i * 8, values);
  }
}

template <class T>
void launch_silu(const void* x, int64_t rows, int32_t width, const ProductInput& y,
                 cudaStream_t stream) {
  const T* const from = static_cast<const T*>(x);
  if (y.scales == nullptr) {
    const int64_t vectors = rows * width / 8;
    launch_dependent(silu_kernel<T>, static_cast<unsigned>(ceil_div<int64_t>(vectors, 512)), 256, 0,
                     stream, from, vectors, static_cast<T*>(y.values));
    return;
  }
  const auto kernel = width <= 1 * 8 * kThreads   ? scaled_silu_kernel<T, 1>
                      : width <= 4 * 8 * kThreads ? scaled_silu_kernel<T, 4>
                                                  : scaled_silu_kernel<T, 8>;
  launch_dependent(kernel, static_cast<unsigned>(rows), kThreads, 0, stream, from, width, y);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const T* padded, int32_t frames, int32_t width, RowLayout layout, T* packed) {
  await_previous();
  const int frame = blockIdx.x, utterance = blockIdx.y;
  if (frame >= layout.lengths[utterance]) return;
  const T* const from = padded + (static_cast<int64_t>(utterance) * frames + frame) * width;
  T* const to = packed + static_cast<int64_t>(layout.offsets[utterance] + frame) * width;
  for (int i = threadIdx.x * 8; i < width; i += kThreads * 8)
    *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
}

/// Uses one block per frame. Elements have two bytes, whatever their type is.
__global__ void __launch_bounds__(kThreads)
    keep_keys_kernel(const uint16_t* qkv, int32_t width, LayerRings rings, RowLayout layout) {
  await_previous();
  const int frame = blockIdx.x, utterance = blockIdx.y, rows = rings.attended + rings.frames;
  if (frame >= layout.lengths[utterance]) return;
  const int64_t row = rings.slots[utterance] * rows + (rings.encoded[utterance] + frame) % rows;
  const uint16_t* const from =
      qkv + static_cast<int64_t>(layout.offsets[utterance] + frame) * 3 * width + width;
  uint16_t* const to = static_cast<uint16_t*>(rings.keys_values) + row * 2 * width;
  for (int i = threadIdx.x * 8; i < 2 * width; i += kThreads * 8)
    *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
}

constexpr int kPlanThreads = 1024;

/// Runs as one block, which loops where there are more utterances than threads.
__global__ void __launch_bounds__(kPlanThreads) plan_kernel(const LayoutPlan plan) {
  await_previous();
  __shared__ int32_t of_warps[kPlanThreads / 32], before;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) before = 0;
  for (int base = 0; base < plan.utterances; base += kPlanThreads) {
    const int utterance = base + static_cast<int>(threadIdx.x);
    const bool valid = utterance < plan.utterances;
    int32_t length = valid ? static_cast<int32_t>(plan.feature_lengths[utterance]) : 0;
    int32_t begin =
        valid && plan.begins != nullptr ? static_cast<int32_t>(plan.feature_begins[utterance]) : 0;
    for (int level = 0; valid; ++level) {
      plan.lengths[level * plan.utterances + utterance] = length;
      if (plan.begins != nullptr) plan.begins[level * plan.utterances + utterance] = begin;
      begin /= 2;
      if (level == plan.strides) break;
      length = length == 0 ? 0 : plan.causal ? length / 2 + 1 : (length + 1) / 2;
    }
    const int32_t sum = warp_inclusive_sum(length, lane);
    __syncthreads();  // `before` is set, and all have read the last iteration's sums
    if (lane == 31) of_warps[warp] = sum;
    __syncthreads();
    int32_t own = before, all = 0;
    for (int w = 0; w < kPlanThreads / 32; ++w) {
      if (w < warp) own += of_warps[w];
      all += of_warps[w];
    }
    if (valid) {
      plan.offsets[utterance] =
          plan.padded_frames > 0 ? utterance * plan.padded_frames : own + sum - length;
      plan.encoded_lengths[utterance] = length;
    }
    __syncthreads();
    if (threadIdx.x == 0) before += all;
  }
}

}  // namespace

void layer_norm(Precision precision, const void* x, int64_t rows, int32_t width,
                const NormWeights& norm, const ProductInput& y, cudaStream_t stream) {
  launch_norms(precision, {const_cast<void*>(x), rows, width, norm, {}, y}, stream);
}

void layer_norms(Precision precision, void* x, int64_t rows, int32_t width, const NormWeights& norm,
                 const NormWeights& next, const ProductInput& y, cudaStream_t stream) {
  launch_norms(precision, {x, rows, width, norm, next, y}, stream);
}

void layer_norm_padded(Precision precision, const void* x, int32_t width, const NormWeights& norm,
                       const RowLayout& layout, void* padded, cudaStream_t stream) {
  for_width(precision, width, [&]<class T, int kVectors, bool kFull>() {
    const dim3 grid(static_cast<unsigned>(ceil_div(layout.longest, kThreads / 32)),
                    static_cast<unsigned>(layout.utterances));
    launch_dependent(padded_norm_kernel<T, kVectors, kFull>, grid, kThreads, 0, stream,
                     static_cast<const T*>(x), width, norm, layout, static_cast<T*>(padded));
  });
}

void silu(Precision precision, const void* x, int64_t rows, int32_t width, const ProductInput& y,
          cudaStream_t stream) {
  precision == Precision::bf16 ? launch_silu<__nv_bfloat16>(x, rows, width, y, stream)
                               : launch_silu<__half>(x, rows, width, y, stream);
}

void pack_rows(Precision /*both have two bytes*/, const void* padded, int32_t frames, int32_t width,
               const RowLayout& layout, void* packed, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(layout.longest), static_cast<unsigned>(layout.utterances));
  launch_dependent(pack_kernel<__half>, grid, kThreads, 0, stream,
                   static_cast<const __half*>(padded), frames, width, layout,
                   static_cast<__half*>(packed));
}

void keep_keys(const void* qkv, int32_t width, const LayerRings& rings, const RowLayout& layout,
               cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(layout.longest), static_cast<unsigned>(layout.utterances));
  launch_dependent(keep_keys_kernel, grid, kThreads, 0, stream, static_cast<const uint16_t*>(qkv),
                   width, rings, layout);
}

void plan_layout(const LayoutPlan& plan, cudaStream_t stream) {
  launch_dependent(plan_kernel, 1, kPlanThreads, 0, stream, plan);
}

}  // namespace rtfx
