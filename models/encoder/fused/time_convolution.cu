// The middle of the convolution module: gated unit, depthwise convolution over time, norm of each
// frame where the model has one, SiLU. A block takes a few frames of an utterance, a thread four
// channels of them.
#include "base/gpu/activation.h"
#include "base/gpu/check.h"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/vectors.cuh"

namespace rtfx {
namespace {

constexpr int kFrames = 8, kChannels = 4;
constexpr int kMostThreads = kWidestConvolution / kChannels;
constexpr float kNormEpsilon = 1e-5f;

/// The sums over a block of kFrames numbers of each thread; every thread gets them.
__device__ void block_sums(float (&values)[kFrames]) {
  __shared__ float of_warps[kFrames][kMostThreads / 32];
  const int warps = static_cast<int>(blockDim.x) / 32;
  __syncthreads();  // all have read those of the last call
#pragma unroll
  for (int f = 0; f < kFrames; ++f) {
    values[f] = warp_sum(values[f]);
    if (threadIdx.x % 32 == 0) of_warps[f][threadIdx.x / 32] = values[f];
  }
  __syncthreads();
#pragma unroll
  for (int f = 0; f < kFrames; ++f) {
    values[f] = 0;
    for (int w = 0; w < warps; ++w) values[f] += of_warps[f][w];
  }
}

/// kKernel: taps, or 0 for of.kernel. kStreams: `rings` have what the gated unit gave for the
/// frames before the utterance's.
template <class T, int kKernel, int kBlock, bool kStreams>
__global__ void __launch_bounds__(kBlock)
    convolve_kernel(const TimeConvolution in, const RowLayout layout, const LayerRings rings) {
  const int utterance = blockIdx.y, first = blockIdx.x * kFrames;
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

  float sums[kFrames][kChannels] = {};
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
      constexpr int kSeen = kFrames + kKernel - 1;
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
        for (int f = 0; f < kFrames; ++f) {
          if (s >= f && s - f < kKernel) add(f, weights[s - f], value);
        }
      }
    } else {
      for (int s = 0; s < kFrames + in.kernel - 1; ++s) {
        const T* const row = row_of(s);
        float value[kChannels];
        gated(s, *reinterpret_cast<const uint2*>(row),
              *reinterpret_cast<const uint2*>(row + in.width), value);
#pragma unroll
        for (int f = 0; f < kFrames; ++f) {
          if (s >= f && s - f < in.kernel) add(f, tap(s - f), value);
        }
      }
    }
  }

  if (in.norm.weight != nullptr) {
    float mean[kFrames], square[kFrames];
#pragma unroll
    for (int f = 0; f < kFrames; ++f)
      mean[f] = valid ? sums[f][0] + sums[f][1] + sums[f][2] + sums[f][3] : 0;
    block_sums(mean);
#pragma unroll
    for (int f = 0; f < kFrames; ++f) {
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
      for (int f = 0; f < kFrames; ++f) {
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
  for (int f = 0; f < kFrames; ++f) {
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
  dim3 grid(static_cast<unsigned>(ceil_div(layout.longest, kFrames)),
            static_cast<unsigned>(layout.utterances));
  if (in.norm.weight == nullptr) {
    grid.z = static_cast<unsigned>(ceil_div(threads, kPart));
    convolve_kernel<T, kKernel, kPart, kStreams><<<grid, kPart, 0, stream>>>(in, layout, rings);
  } else if (threads <= 256) {
    convolve_kernel<T, kKernel, 256, kStreams><<<grid, threads, 0, stream>>>(in, layout, rings);
  } else {
    convolve_kernel<T, 0, kMostThreads, kStreams><<<grid, threads, 0, stream>>>(in, layout, rings);
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

}  // namespace rtfx
