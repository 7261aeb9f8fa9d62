// The kernels of the fused encoder as they were before they were made faster, for
// rtfx_bench_encoder_rows.
#include <cuda_fp8.h>

#include "base/gpu/check.h"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"
#include "benchmarks/encoder_rows_before.h"

namespace rtfx::before {
namespace {

__device__ inline float fast_sigmoid(float x) { return __fdividef(1, 1 + __expf(-x)); }
__device__ inline float fast_silu(float x) { return x * fast_sigmoid(x); }

template <int kCount>
struct BytesOf;
template <>
struct BytesOf<8> {
  using Type = uint4;
};
template <>
struct BytesOf<4> {
  using Type = uint2;
};

template <class T, int kCount>
__device__ void unpack_vector(float (&values)[kCount], typename BytesOf<kCount>::Type bytes) {
  static_assert(sizeof(T) == 2);
  const T* const elements = reinterpret_cast<const T*>(&bytes);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = to_float(elements[i]);
}

/// `from` is aligned to all elements.
template <int kCount, class T>
__device__ void load_vector(float (&values)[kCount], const T* from) {
  unpack_vector<T>(values, *reinterpret_cast<const typename BytesOf<kCount>::Type*>(from));
}

template <int kCount, class T>
__device__ void store_vector(T* to, const float (&values)[kCount]) {
  static_assert(sizeof(T) == 2);
  typename BytesOf<kCount>::Type bytes;
  T* const elements = reinterpret_cast<T*>(&bytes);
#pragma unroll
  for (int i = 0; i < kCount; ++i) elements[i] = from_float<T>(values[i]);
  *reinterpret_cast<typename BytesOf<kCount>::Type*>(to) = bytes;
}

/// values * factor, saturated.
__device__ inline void store_e4m3(__nv_fp8_storage_t* to, const float (&values)[8], float factor) {
  uint2 bytes;
  auto* const pairs = reinterpret_cast<__nv_fp8x2_storage_t*>(&bytes);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = __nv_cvt_float2_to_fp8x2(
        make_float2(values[2 * i] * factor, values[2 * i + 1] * factor), __NV_SATFINITE, __NV_E4M3);
  }
  *reinterpret_cast<uint2*>(to) = bytes;
}

constexpr float kEpsilon = 1e-5f;
constexpr float kLargestE4m3 = 448;
constexpr int kThreads = 128;

/// A row in the registers of a warp: lane l holds the vectors l, l + 32, ... of eight elements.
template <int kVectors>
struct Row {
  float values[kVectors][8];
  int vectors;  // of the row

  __device__ bool has(int i) const { return i * 32 + threadIdx.x % 32 < vectors; }
  __device__ int column(int i) const { return (i * 32 + static_cast<int>(threadIdx.x % 32)) * 8; }

  template <class T>
  __device__ void load(const T* from) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (has(i)) {
        load_vector(values[i], from + column(i));
      } else {
        for (float& x : values[i]) x = 0;
      }
    }
  }

  template <class T>
  __device__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (has(i)) store_vector(to + column(i), values[i]);
    }
  }

  /// To what a product reads.
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

  /// The value after rounding to T.
  template <class T>
  __device__ void round() {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      for (float& x : values[i]) x = rounded<T>(x);
    }
  }
};

struct Norms {
  void* x;
  int64_t rows;
  int32_t width;
  NormWeights norm, next;  // next: null weights for none
  ProductInput y;
};

template <class T, int kVectors>
__global__ void __launch_bounds__(kThreads) norm_kernel(const Norms in) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= in.rows) return;
  T* const x = static_cast<T*>(in.x) + row * in.width;
  Row<kVectors> values;
  values.vectors = in.width / 8;
  values.load(x);
  values.template norm<T>(in.norm);
  if (in.next.weight != nullptr) {
    values.template round<T>();
    values.store(x);
    values.template norm<T>(in.next);
  }
  values.template store<T>(in.y, row);
}

/// work.template operator()<T, vectors per lane>()
template <class Work>
void for_width(Precision precision, int32_t width, const Work& work) {
  const auto with = [&]<class T>(T) {
    const int vectors = ceil_div(width / 8, 32);
    if (vectors <= 1) return work.template operator()<T, 1>();
    if (vectors <= 2) return work.template operator()<T, 2>();
    if (vectors <= 4) return work.template operator()<T, 4>();
    work.template operator()<T, kWidestNorm / 256>();
  };
  precision == Precision::bf16 ? with(__nv_bfloat16()) : with(__half());
}

void launch_norms(Precision precision, const Norms& in, cudaStream_t stream) {
  for_width(precision, in.width, [&]<class T, int kVectors>() {
    norm_kernel<T, kVectors>
        <<<static_cast<unsigned>(ceil_div<int64_t>(in.rows, kThreads / 32)), kThreads, 0, stream>>>(
            in);
  });
  RTFX_CUDA(cudaGetLastError());
}

/// One block a row where rows get a scale, since that is of the whole row.
template <class T, int kVectors>
__global__ void __launch_bounds__(kThreads)
    scaled_silu_kernel(const T* x, int32_t width, ProductInput y) {
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
    silu_kernel<T><<<static_cast<unsigned>(ceil_div<int64_t>(vectors, 512)), 256, 0, stream>>>(
        from, vectors, static_cast<T*>(y.values));
  } else if (width <= 1 * 8 * kThreads) {
    scaled_silu_kernel<T, 1><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(from, width, y);
  } else if (width <= 4 * 8 * kThreads) {
    scaled_silu_kernel<T, 4><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(from, width, y);
  } else {
    scaled_silu_kernel<T, 8><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(from, width, y);
  }
  RTFX_CUDA(cudaGetLastError());
}

constexpr int kTimeFrames = 8, kChannels = 4;
constexpr int kMostTimeThreads = kWidestConvolution / kChannels;
constexpr float kNormEpsilon = 1e-5f;

/// The sums over a block of kTimeFrames numbers of each thread; every thread gets them.
__device__ void block_sums(float (&values)[kTimeFrames]) {
  __shared__ float of_warps[kTimeFrames][kMostTimeThreads / 32];
  const int warps = static_cast<int>(blockDim.x) / 32;
  __syncthreads();  // all have read those of the last call
#pragma unroll
  for (int f = 0; f < kTimeFrames; ++f) {
    values[f] = warp_sum(values[f]);
    if (threadIdx.x % 32 == 0) of_warps[f][threadIdx.x / 32] = values[f];
  }
  __syncthreads();
#pragma unroll
  for (int f = 0; f < kTimeFrames; ++f) {
    values[f] = 0;
    for (int w = 0; w < warps; ++w) values[f] += of_warps[f][w];
  }
}

/// kKernel: taps, or 0 for of.kernel. kStreams: `rings` have what the gated unit gave for the
/// frames before the utterance's.
template <class T, int kKernel, int kBlock, bool kStreams>
__global__ void __launch_bounds__(kBlock)
    convolve_kernel(const TimeConvolution in, const RowLayout layout, const LayerRings rings) {
  const int utterance = blockIdx.y, first = blockIdx.x * kTimeFrames;
  const int length = layout.lengths[utterance];
  if (first >= length) return;
  const int channel = static_cast<int>(blockIdx.z * blockDim.x + threadIdx.x) * kChannels;
  const bool valid = channel < in.width;
  const int64_t stride = 2 * in.width;
  const T* const gates =
      static_cast<const T*>(in.gates) + layout.offsets[utterance] * stride + channel;
  const auto tap = [&](int k) {
    return *reinterpret_cast<const float4*>(in.weight + static_cast<int64_t>(k) * in.width +
                                            channel);
  };
  // Row s of those that the block's frames see. Loaded in any case, so that no load waits for
  // another.
  const auto row_of = [&](int s) {
    return gates + min(max(first - in.left + s, 0), length - 1) * stride;
  };
  const int ring = rings.convolved + rings.frames;
  T* of_stream = nullptr;
  int64_t encoded = 0;
  if constexpr (kStreams) {
    encoded = rings.encoded[utterance];
    of_stream = static_cast<T*>(rings.gated) + rings.slots[utterance] * ring * in.width + channel;
  }
  // The row of a frame of the stream; the step's first frame is 0.
  const auto ring_row = [&](int frame) {
    return of_stream + static_cast<int>((encoded + ring + frame) % ring) * in.width;
  };
  const auto gated = [&](int s, uint2 value_bits, uint2 gate_bits, float(&value)[kChannels]) {
    const int frame = first - in.left + s;
    if constexpr (kStreams) {
      if (frame < 0) {
        unpack_vector<T>(value, *reinterpret_cast<const uint2*>(ring_row(frame)));
#pragma unroll
        for (float& x : value) x = encoded + frame >= 0 ? x : 0;
        return;
      }
    }
    const bool inside = frame >= 0 && frame < length;
    float gate[kChannels];
    unpack_vector<T>(value, value_bits);
    unpack_vector<T>(gate, gate_bits);
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      value[c] = inside ? rounded<T>(value[c] * fast_sigmoid(gate[c])) : 0;
    if constexpr (kStreams) {
      // A block's own frames; no other block reads their places.
      if (frame >= first && inside) store_vector(ring_row(frame), value);
    }
  };

  float sums[kTimeFrames][kChannels] = {};
  if (valid) {
    const float4 bias = *reinterpret_cast<const float4*>(in.bias + channel);
#pragma unroll
    for (float(&sum)[kChannels] : sums) {
      sum[0] = bias.x, sum[1] = bias.y, sum[2] = bias.z, sum[3] = bias.w;
    }
    const auto add = [&](int f, const float4& w, const float(&value)[kChannels]) {
      sums[f][0] += w.x * value[0], sums[f][1] += w.y * value[1];
      sums[f][2] += w.z * value[2], sums[f][3] += w.w * value[3];
    };
    if constexpr (kKernel > 0) {
      constexpr int kSeen = kTimeFrames + kKernel - 1;
      uint2 values[kSeen], gating[kSeen];
      float4 weights[kKernel];
#pragma unroll
      for (int s = 0; s < kSeen; ++s) {
        const T* const row = row_of(s);
        values[s] = *reinterpret_cast<const uint2*>(row);
        gating[s] = *reinterpret_cast<const uint2*>(row + in.width);
      }
#pragma unroll
      for (int k = 0; k < kKernel; ++k) weights[k] = tap(k);
#pragma unroll
      for (int s = 0; s < kSeen; ++s) {
        float value[kChannels];
        gated(s, values[s], gating[s], value);
#pragma unroll
        for (int f = 0; f < kTimeFrames; ++f) {
          if (s >= f && s - f < kKernel) add(f, weights[s - f], value);
        }
      }
    } else {
      for (int s = 0; s < kTimeFrames + in.kernel - 1; ++s) {
        const T* const row = row_of(s);
        float value[kChannels];
        gated(s, *reinterpret_cast<const uint2*>(row),
              *reinterpret_cast<const uint2*>(row + in.width), value);
#pragma unroll
        for (int f = 0; f < kTimeFrames; ++f) {
          if (s >= f && s - f < in.kernel) add(f, tap(s - f), value);
        }
      }
    }
  }

  if (in.norm.weight != nullptr) {
    float mean[kTimeFrames], square[kTimeFrames];
#pragma unroll
    for (int f = 0; f < kTimeFrames; ++f)
      mean[f] = valid ? sums[f][0] + sums[f][1] + sums[f][2] + sums[f][3] : 0;
    block_sums(mean);
#pragma unroll
    for (int f = 0; f < kTimeFrames; ++f) {
      mean[f] /= static_cast<float>(in.width);
      square[f] = 0;
      for (float& x : sums[f]) {
        x -= mean[f];
        square[f] += valid ? x * x : 0;
      }
    }
    block_sums(square);
    if (valid) {
      float weight[kChannels], bias[kChannels];
      load_vector(weight, static_cast<const T*>(in.norm.weight) + channel);
      load_vector(bias, static_cast<const T*>(in.norm.bias) + channel);
#pragma unroll
      for (int f = 0; f < kTimeFrames; ++f) {
        const float inverse = rsqrtf(square[f] / static_cast<float>(in.width) + kNormEpsilon);
#pragma unroll
        for (int c = 0; c < kChannels; ++c) sums[f][c] = sums[f][c] * inverse * weight[c] + bias[c];
      }
    }
  }
  if (!valid) return;
  T* const output = static_cast<T*>(in.output) +
                    static_cast<int64_t>(layout.offsets[utterance] + first) * in.width + channel;
#pragma unroll
  for (int f = 0; f < kTimeFrames; ++f) {
    if (first + f >= length) break;
    for (float& x : sums[f]) x = fast_silu(x);
    store_vector(output + static_cast<int64_t>(f) * in.width, sums[f]);
  }
}

template <class T, int kKernel, bool kStreams>
void launch(const TimeConvolution& in, const RowLayout& layout, cudaStream_t stream) {
  const LayerRings rings = kStreams ? *in.rings : LayerRings{};
  constexpr int kPart = 64;  // threads of a block that need not see whole frames
  const int threads = round_up(ceil_div(in.width, kChannels), 32);
  dim3 grid(static_cast<unsigned>(ceil_div(layout.longest, kTimeFrames)),
            static_cast<unsigned>(layout.utterances));
  if (in.norm.weight == nullptr) {
    grid.z = static_cast<unsigned>(ceil_div(threads, kPart));
    convolve_kernel<T, kKernel, kPart, kStreams><<<grid, kPart, 0, stream>>>(in, layout, rings);
  } else if (threads <= 256) {
    convolve_kernel<T, kKernel, 256, kStreams><<<grid, threads, 0, stream>>>(in, layout, rings);
  } else {
    convolve_kernel<T, 0, kMostTimeThreads, kStreams>
        <<<grid, threads, 0, stream>>>(in, layout, rings);
  }
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace

void convolve_time(Precision precision, const TimeConvolution& in, const RowLayout& layout,
                   cudaStream_t stream) {
  const auto with = [&]<class T>(T) {
    const bool streams = in.rings != nullptr;
    if (in.kernel == 9) {
      streams ? launch<T, 9, true>(in, layout, stream) : launch<T, 9, false>(in, layout, stream);
    } else {
      streams ? launch<T, 0, true>(in, layout, stream) : launch<T, 0, false>(in, layout, stream);
    }
  };
  precision == Precision::bf16 ? with(__nv_bfloat16()) : with(__half());
}

void layer_norm(Precision precision, const void* x, int64_t rows, int32_t width,
                const NormWeights& norm, const ProductInput& y, cudaStream_t stream) {
  launch_norms(precision, {const_cast<void*>(x), rows, width, norm, {}, y}, stream);
}

void layer_norms(Precision precision, void* x, int64_t rows, int32_t width, const NormWeights& norm,
                 const NormWeights& next, const ProductInput& y, cudaStream_t stream) {
  launch_norms(precision, {x, rows, width, norm, next, y}, stream);
}

void silu(Precision precision, const void* x, int64_t rows, int32_t width, const ProductInput& y,
          cudaStream_t stream) {
  precision == Precision::bf16 ? launch_silu<__nv_bfloat16>(x, rows, width, y, stream)
                               : launch_silu<__half>(x, rows, width, y, stream);
}

}  // namespace rtfx::before
