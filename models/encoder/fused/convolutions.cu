// Convolutions of the fused encoder: the strided ones of sub-sampling, and those over time in each
// layer.

#include "base/gpu/activation.h"
#include "base/gpu/check.h"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/vectors.cuh"

namespace rtfx {

// Sub-sampling (dw_striding) with the channels innermost. The output of the first convolution is 16
// times the size of what comes in, so it never leaves the registers: a thread has two channels, and
// makes each column of it just before the second convolution wants it.

namespace {

constexpr int kFrames = 8;                         // of the second convolution, per block
constexpr int kMelFrames = 4 * (kFrames - 1) + 7;  // that they see
constexpr int kMostThreads = 512;

template <class T>
__global__ void __launch_bounds__(kMostThreads) first_kernel(const FirstConvolutions in) {
  extern __shared__ float mel[];  // [kMelFrames, bins]
  const int utterance = blockIdx.y, first = blockIdx.x * kFrames;
  const int mel_length = in.lengths[utterance];
  const int length1 = in.lengths[in.utterances + utterance];
  const int length2 = in.lengths[2 * in.utterances + utterance];
  if (first >= length2) return;
  const int mel_begin = in.begins == nullptr ? 0 : in.begins[utterance];
  const int begin1 = in.begins == nullptr ? 0 : in.begins[in.utterances + utterance];
  const int before = in.before, bins = in.mel_bins + 4;
  const auto halved = [&](int extent) { return before == 2 ? extent / 2 + 1 : (extent + 1) / 2; };
  const int bins1 = halved(in.mel_bins), bins2 = halved(bins1);

  const int first_mel = 4 * first - 3 * before;
  const float* const features =
      in.features + static_cast<int64_t>(utterance) * in.mel_bins * in.mel_frames;
  for (int i = threadIdx.x; i < kMelFrames * bins; i += blockDim.x) {
    const int bin = i / kMelFrames - before, frame = first_mel + i % kMelFrames;
    const bool valid = bin >= 0 && bin < in.mel_bins && frame >= mel_begin && frame < mel_length;
    mel[i % kMelFrames * bins + i / kMelFrames] =
        valid ? features[static_cast<int64_t>(bin) * in.mel_frames + frame] : 0;
  }
  __syncthreads();

  const int channel = 2 * static_cast<int>(threadIdx.x);
  if (channel >= in.channels) return;
  float2 weight1[9], weight2[9];
#pragma unroll
  for (int i = 0; i < 9; ++i) {
    weight1[i] = *reinterpret_cast<const float2*>(in.weight1 + i * in.channels + channel);
    weight2[i] = *reinterpret_cast<const float2*>(in.weight2 + i * in.channels + channel);
  }
  const float2 bias1 = *reinterpret_cast<const float2*>(in.bias1 + channel);
  const float2 bias2 = *reinterpret_cast<const float2*>(in.bias2 + channel);

  for (int frame = first; frame < min(first + kFrames, length2); ++frame) {
    T* const output =
        static_cast<T*>(in.output) +
        ((static_cast<int64_t>(in.offsets[utterance]) << in.scale) + frame) * bins2 * in.channels +
        channel;
    const float* const seen = mel + 4 * (frame - first) * bins;
    // Column `bin` of the first convolution's rows 2 frame - before + {0, 1, 2}.
    const auto column = [&](int bin, float2(&to)[3]) {
#pragma unroll
      for (int a = 0; a < 3; ++a) to[a] = make_float2(0, 0);
      if (bin < 0 || bin >= bins1) return;
      float inputs[7][3];
#pragma unroll
      for (int t = 0; t < 7; ++t) {
#pragma unroll
        for (int q = 0; q < 3; ++q) inputs[t][q] = seen[t * bins + 2 * bin + q];
      }
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        const int row = 2 * frame + a - before;
        if (row < begin1 || row >= length1) continue;
        float2 sum = bias1;
#pragma unroll
        for (int p = 0; p < 3; ++p) {
#pragma unroll
          for (int q = 0; q < 3; ++q) {
            sum.x += inputs[2 * a + p][q] * weight1[3 * p + q].x;
            sum.y += inputs[2 * a + p][q] * weight1[3 * p + q].y;
          }
        }
        to[a] = make_float2(fmaxf(sum.x, 0), fmaxf(sum.y, 0));
      }
    };
    float2 columns[3][3];
#pragma unroll
    for (float2& x : columns[0]) x = make_float2(0, 0);
    for (int bin = 0; bin < bins2; ++bin) {
      column(2 * bin + 1 - before, columns[1]);
      column(2 * bin + 2 - before, columns[2]);
      float2 sum = bias2;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          sum.x += columns[c][a].x * weight2[3 * a + c].x;
          sum.y += columns[c][a].y * weight2[3 * a + c].y;
        }
        columns[0][a] = columns[2][a];
      }
      output[bin * in.channels] = from_float<T>(sum.x);
      output[bin * in.channels + 1] = from_float<T>(sum.y);
    }
  }
}

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) stride_kernel(const DepthwiseStride in) {
  const int utterance = blockIdx.z, frame = blockIdx.x;
  const int in_length = in.lengths[utterance], length = in.lengths[in.utterances + utterance];
  if (frame >= length) return;
  const int in_begin = in.begins == nullptr ? 0 : in.begins[utterance];
  const int item = blockIdx.y * kThreads + static_cast<int>(threadIdx.x), vectors = in.channels / 8;
  const int bin = item / vectors, channel = item % vectors * 8;
  if (bin >= in.halved_bins) return;
  const int64_t offset = in.offsets[utterance];
  const T* const input = static_cast<const T*>(in.input) +
                         (offset << (in.scale + 1)) * in.bins * in.channels + channel;
  float sums[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) sums[c] = in.bias[channel + c];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int row = 2 * frame + a - in.before;
    if (row < in_begin || row >= in_length) continue;
#pragma unroll
    for (int q = 0; q < 3; ++q) {
      const int column = 2 * bin + q - in.before;
      if (column < 0 || column >= in.bins) continue;
      float values[8];
      load_vector(values, input + (static_cast<int64_t>(row) * in.bins + column) * in.channels);
      const auto* const weight =
          reinterpret_cast<const float4*>(in.weight + (3 * a + q) * in.channels + channel);
      const float4 low = weight[0], high = weight[1];
      sums[0] += values[0] * low.x, sums[1] += values[1] * low.y;
      sums[2] += values[2] * low.z, sums[3] += values[3] * low.w;
      sums[4] += values[4] * high.x, sums[5] += values[5] * high.y;
      sums[6] += values[6] * high.z, sums[7] += values[7] * high.w;
    }
  }
  store_vector(static_cast<T*>(in.output) +
                   (((offset << in.scale) + frame) * in.halved_bins + bin) * in.channels + channel,
               sums);
}

}  // namespace

void first_convolutions(Precision precision, const FirstConvolutions& in, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(in.longest, kFrames)),
                  static_cast<unsigned>(in.utterances));
  const int threads = round_up(in.channels / 2, 32);
  const size_t shared = sizeof(float) * kMelFrames * (in.mel_bins + 4);
  if (precision == Precision::bf16) {
    first_kernel<__nv_bfloat16><<<grid, threads, shared, stream>>>(in);
  } else {
    first_kernel<__half><<<grid, threads, shared, stream>>>(in);
  }
  RTFX_CUDA(cudaGetLastError());
}

void depthwise_stride(Precision precision, const DepthwiseStride& in, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(in.longest),
                  static_cast<unsigned>(ceil_div(in.halved_bins * in.channels / 8, kThreads)),
                  static_cast<unsigned>(in.utterances));
  if (precision == Precision::bf16) {
    stride_kernel<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(in);
  } else {
    stride_kernel<__half><<<grid, kThreads, 0, stream>>>(in);
  }
  RTFX_CUDA(cudaGetLastError());
}

// The middle of the convolution module: gated unit, depthwise convolution over time, norm of each
// frame where the model has one, SiLU. A block takes a few frames of an utterance, a thread four
// channels of them.

namespace {

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

}  // namespace rtfx
