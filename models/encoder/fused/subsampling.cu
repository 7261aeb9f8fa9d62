// Sub-sampling (dw_striding) with the channels innermost. At 256 channels, the output of the first
// convolution has 64 times as many values as its input, so it never leaves the registers. A thread
// has two channels. It computes each column of that output just before the second convolution needs
// it.

#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/rounding.h"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/vectors.cuh"

namespace rtfx {

namespace {

constexpr int kMostThreads = 512;
constexpr int64_t kFirstBlocks = 4 * 132;  // blocks that an H100 runs at once, to 256 channels

/// The mel frames that kFrames frames of the second convolution see.
template <int kFrames>
constexpr int kMelFramesOf = 4 * (kFrames - 1) + 7;

/// A block computes a run of kFrames frames of the second convolution.
template <class T, int kFrames>
__global__ void __launch_bounds__(kMostThreads) first_kernel(const FirstConvolutions in) {
  await_previous();
  constexpr int kMelFrames = kMelFramesOf<kFrames>;
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
    // Computes column `bin` of the first convolution's rows 2 frame - before + {0, 1, 2}.
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
  await_previous();
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
  const auto with = [&]<class T, int kFrames> {
    const dim3 grid(static_cast<unsigned>(ceil_div(in.longest, kFrames)),
                    static_cast<unsigned>(in.utterances));
    const int threads = round_up(in.channels / 2, 32);
    const size_t shared = sizeof(float) * kMelFramesOf<kFrames> * (in.mel_bins + 4);
    launch_dependent(first_kernel<T, kFrames>, grid, threads, shared, stream, in);
  };
  // In a long run, frames share mel frames and weights. Short runs occupy all multiprocessors.
  const int64_t frames = static_cast<int64_t>(in.utterances) * in.longest;
  const int fitting = frames <= kFirstBlocks ? 1 : frames <= 2 * kFirstBlocks ? 2 : 8;
  const auto with_run = [&]<class T>(T) {
    switch (in.run > 0 ? in.run : fitting) {
      case 1:
        return with.template operator()<T, 1>();
      case 2:
        return with.template operator()<T, 2>();
      default:
        return with.template operator()<T, 8>();
    }
  };
  precision == Precision::bf16 ? with_run(__nv_bfloat16()) : with_run(__half());
}

void depthwise_stride(Precision precision, const DepthwiseStride& in, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(in.longest),
                  static_cast<unsigned>(ceil_div(in.halved_bins * in.channels / 8, kThreads)),
                  static_cast<unsigned>(in.utterances));
  launch_dependent(
      precision == Precision::bf16 ? stride_kernel<__nv_bfloat16> : stride_kernel<__half>, grid,
      kThreads, 0, stream, in);
}

}  // namespace rtfx
