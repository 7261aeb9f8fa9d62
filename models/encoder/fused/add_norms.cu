// Norms of few rows to which a product is still to be added. A block takes a row, and a thread
// takes four elements of it. All loads of a row are then in flight at the same time.

#include <cstdint>

#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"
#include "models/encoder/epsilons.h"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/vectors.cuh"

namespace rtfx {
namespace {

constexpr auto kEpsilon = static_cast<float>(kNormEpsilon);
constexpr int kElements = 4;  // elements of a row that a thread has
using Bytes = BytesOf<kElements>::Type;
constexpr int kMostThreads = kWidestNorm / kElements;

struct Rows {
  void* x;  // [rows, width]
  int64_t rows;
  int32_t width;
  ProductParts parts;
  NormWeights norm, next;  // next has null weights where there is no second norm
  void* y;
};

/// The sums of the warps of a block, one for each warp.
using OfWarps = float[kMostThreads / 32];

/// Returns the sum over the block. of_warps may serve only one call.
__device__ float block_sum(float value, OfWarps& of_warps) {
  const float of_warp = warp_sum(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  float sums[4] = {};
#pragma unroll
  for (int w = 0; w < kMostThreads / 32; ++w)
    sums[w % 4] += w * 32 < static_cast<int>(blockDim.x) ? of_warps[w] : 0;
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// The weights of a norm for a thread's elements, as bytes that are not yet converted.
struct LoadedNorm {
  Bytes weight, bias;
};

template <class T>
__device__ LoadedNorm load_norm(const NormWeights& norm, int column) {
  return {*reinterpret_cast<const Bytes*>(static_cast<const T*>(norm.weight) + column),
          *reinterpret_cast<const Bytes*>(static_cast<const T*>(norm.bias) + column)};
}

/// Norms the block's row. The values of threads that are not valid are zeros.
template <class T>
__device__ void norm_row(float (&values)[kElements], const LoadedNorm& norm, bool valid, int width,
                         OfWarps (&of_warps)[2]) {
  float sum = 0;
#pragma unroll
  for (const float x : values) sum += x;
  const float mean = block_sum(sum, of_warps[0]) / static_cast<float>(width);
  float squares = 0;
#pragma unroll
  for (const float x : values) squares += (x - mean) * (x - mean);
  const float inverse =
      rsqrtf(block_sum(valid ? squares : 0, of_warps[1]) / static_cast<float>(width) + kEpsilon);
  float weight[kElements], bias[kElements];
  unpack_vector<T>(weight, norm.weight);
  unpack_vector<T>(bias, norm.bias);
#pragma unroll
  for (int e = 0; e < kElements; ++e)
    values[e] = valid ? (values[e] - mean) * inverse * weight[e] + bias[e] : 0;
}

/// Sets `values` to the elements of x plus the product, rounded.
template <class T>
__device__ void add_product(float (&values)[kElements], const Rows& in, Bytes loaded_bias,
                            const T* x, int64_t row, int column) {
  float parts[kParts][kElements], bias[kElements];
  const Bytes loaded = *reinterpret_cast<const Bytes*>(x);
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const float4 part =
        *reinterpret_cast<const float4*>(in.parts.sums + (p * in.rows + row) * in.width + column);
    parts[p][0] = part.x, parts[p][1] = part.y, parts[p][2] = part.z, parts[p][3] = part.w;
  }
  unpack_vector<T>(values, loaded);
  unpack_vector<T>(bias, loaded_bias);
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    values[e] += bias[e];
#pragma unroll
    for (int p = 0; p < kParts; ++p) values[e] += parts[p][e];
  }
  round_vector<T>(values);
}

/// With kPadded, y is a padded batch, and x stays as it is.
///
/// The weights come from device memory, so their loads start before the product ends. The product
/// is the kernel before this one. Its blocks let this kernel start only after they have waited for
/// all earlier work. So whatever wrote the weights has ended.
///
/// The bound of one block per multiprocessor lets the compiler take registers for all loads at
/// once.
template <class T, bool kPadded>
__global__ void __launch_bounds__(kMostThreads, 1)
    add_norm_kernel(const Rows in, RowLayout layout) {
  const int column = static_cast<int>(threadIdx.x) * kElements;
  const bool valid = column < in.width, twice = in.next.weight != nullptr;
  LoadedNorm norm{}, next{};
  Bytes bias{};
  if (valid) {
    norm = load_norm<T>(in.norm, column);
    if (twice) next = load_norm<T>(in.next, column);
    if (in.parts.bias != nullptr)
      bias = *reinterpret_cast<const Bytes*>(static_cast<const T*>(in.parts.bias) + column);
  }
  await_previous();
  __shared__ OfWarps of_warps[2][2];
  int64_t row = blockIdx.x, row_of_y = row;
  if constexpr (kPadded) {
    const int utterance = blockIdx.y, frame = blockIdx.x;
    if (frame >= layout.lengths[utterance]) return;
    row = layout.offsets[utterance] + frame;
    row_of_y = static_cast<int64_t>(utterance) * layout.longest + frame;
  }
  T* const x = static_cast<T*>(in.x) + row * in.width + column;
  float values[kElements] = {};
  if (valid) {
    add_product<T>(values, in, bias, x, row, column);
    if (!kPadded && !twice) store_vector(x, values);
  }
  norm_row<T>(values, norm, valid, in.width, of_warps[0]);
  if (twice) {
    round_vector<T>(values);
    if (valid) store_vector(x, values);
    norm_row<T>(values, next, valid, in.width, of_warps[1]);
  }
  if (valid) store_vector(static_cast<T*>(in.y) + row_of_y * in.width + column, values);
}

int threads_of(int32_t width) { return round_up(ceil_div(width, kElements), 32); }

void launch(Precision precision, const Rows& in, cudaStream_t stream) {
  launch_dependent(precision == Precision::bf16 ? add_norm_kernel<__nv_bfloat16, false>
                                                : add_norm_kernel<__half, false>,
                   static_cast<unsigned>(in.rows), threads_of(in.width), 0, stream, in,
                   RowLayout{});
}

}  // namespace

void add_norm(Precision precision, void* x, int64_t rows, int32_t width, const ProductParts& parts,
              const NormWeights& norm, void* y, cudaStream_t stream) {
  launch(precision, {x, rows, width, parts, norm, {}, y}, stream);
}

void add_norms(Precision precision, void* x, int64_t rows, int32_t width, const ProductParts& parts,
               const NormWeights& norm, const NormWeights& next, void* y, cudaStream_t stream) {
  launch(precision, {x, rows, width, parts, norm, next, y}, stream);
}

void add_norm_padded(Precision precision, const void* x, int64_t rows, int32_t width,
                     const ProductParts& parts, const NormWeights& norm, const RowLayout& layout,
                     void* padded, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(layout.longest), static_cast<unsigned>(layout.utterances));
  const Rows in{const_cast<void*>(x), rows, width, parts, norm, {}, padded};
  launch_dependent(precision == Precision::bf16 ? add_norm_kernel<__nv_bfloat16, true>
                                                : add_norm_kernel<__half, true>,
                   grid, threads_of(width), 0, stream, in, layout);
}

}  // namespace rtfx
