// Convolutions of the fused encoder: the strided ones of sub-sampling, and those over time in each
// layer.

#include <algorithm>

#include "base/gpu/activation.h"
#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/rounding.h"
#include "base/gpu/warp.cuh"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/vectors.cuh"

namespace rtfx {

// Sub-sampling (dw_striding) with the channels innermost. At 256 channels, the output of the first
// convolution has 64 times as many values as its input, so it never leaves the registers. A thread
// has two channels. It computes each column of that output just before the second convolution needs
// it.

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

// The middle of the convolution module: the gated unit, the depthwise convolution over time, the
// norm of each frame (where the model has one) and SiLU. A block takes a run of frames of an
// utterance, and a thread takes four channels of them. The thread walks along the run. It keeps the
// gated values that its next outputs need in registers. It loads the frames of a step while it
// computes those before.

namespace {

constexpr int kChannels = 4;
constexpr int kPart = 32;  // threads per block where no block has to see whole frames
constexpr int kMostTimeThreads = kWidestConvolution / kChannels;
constexpr int kTimeWarps = 16;  // warps that share the registers of a multiprocessor
constexpr float kNormEpsilon = 1e-5f;

/// The frames of one step of a run. Every run is a multiple of it.
template <int kKernel>
constexpr int kStep = kKernel > 0 ? 4 : 8;
constexpr int kShortestRun = 8, kLongestRun = 32;

/// The gated unit's output for a thread's channels of an utterance. In streams, the ring holds it
/// for frames before the step, whose first frame has number 0.
template <class T, bool kStreams>
class GatedFrames {
 public:
  struct Loaded {
    uint2 value, gate;
  };

  __device__ GatedFrames(const TimeConvolution& in, const RowLayout& layout,
                         const LayerRings& rings, int utterance, int length, int channel)
      : stride_(2 * in.width), width_(in.width), length_(length) {
    values_ = static_cast<const T*>(in.gates) +
              static_cast<int64_t>(layout.offsets[utterance]) * stride_ + channel;
    if constexpr (kStreams) {
      encoded_ = rings.encoded[utterance];
      rows_ = rings.convolved + rings.frames;
      first_row_ = static_cast<int>(encoded_ % rows_);
      ring_ = static_cast<T*>(rings.gated) + rings.slots[utterance] * rows_ * width_ + channel;
    }
  }

  /// Loads some value also for frames that do not exist, so that no load waits for another one.
  /// With kAny, the frame may lie before the step of a stream.
  template <bool kAny = true>
  __device__ Loaded load(int frame) const {
    if constexpr (kStreams && kAny) {
      if (frame < 0) return {*reinterpret_cast<const uint2*>(ring_row(frame)), {}};
    }
    const T* const row = values_ + static_cast<int64_t>(min(max(frame, 0), length_ - 1)) * stride_;
    return {*reinterpret_cast<const uint2*>(row), *reinterpret_cast<const uint2*>(row + width_)};
  }

  /// Computes the output for a frame that load() returned. A frame that does not exist gives zeros.
  template <bool kAny = true>
  __device__ void gate(float (&value)[kChannels], const Loaded& loaded, int frame) const {
    const bool before = kStreams && kAny && frame < 0;
    const bool exists = (before ? encoded_ + frame >= 0 : frame >= 0) && frame < length_;
    unpack_vector<T>(value, exists ? loaded.value : uint2{});
    if (before) return;
    float gate[kChannels];
    unpack_vector<T>(gate, loaded.gate);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) value[c] *= fast_sigmoid(gate[c]);
    round_vector<T>(value);
  }

  /// Keeps a frame of the step for the stream's later steps. No other block reads this row.
  __device__ void keep(const float (&value)[kChannels], int frame) const {
    if (frame < length_) store_vector(ring_row(frame), value);
  }

 private:
  __device__ T* ring_row(int frame) const {
    int row = first_row_ + frame;
    row += row < 0 ? rows_ : 0;
    row -= row >= rows_ ? rows_ : 0;
    return ring_ + static_cast<int64_t>(row) * width_;
  }

  const T* values_;
  int stride_, width_, length_;
  T* ring_ = nullptr;
  int64_t encoded_ = 0;
  int rows_ = 0, first_row_ = 0;
};

/// Returns the sums over the block of kCount numbers that each thread has. Lane l of a warp gets
/// the sum of number l / (32 / kCount). of_warps is [warps, kCount]. No thread may write it again
/// before another barrier.
template <int kCount>
__device__ float block_sums(float (&values)[kCount], float* of_warps) {
  const int lane = threadIdx.x % 32, own = lane / (32 / kCount);
  const float of_warp = warp_sums(values, lane);
  if (lane % (32 / kCount) == 0) of_warps[threadIdx.x / 32 * kCount + own] = of_warp;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) sum += of_warps[w * kCount + own];
  return sum;
}

/// Norms each of a step's frames. of_warps is the one of block_sums(). valid says whether the
/// thread's channels exist.
template <class T, int kFrames>
__device__ void norm_frames(float (&frames)[kFrames][kChannels], const NormWeights& norm, int width,
                            int channel, bool valid, float (*of_warps)[kFrames]) {
  constexpr int kLanes = 32 / kFrames;  // lanes that hold the sum of one frame
  const int warps = static_cast<int>(blockDim.x) / 32;
  float numbers[kFrames];
#pragma unroll
  for (int f = 0; f < kFrames; ++f)
    numbers[f] = valid ? frames[f][0] + frames[f][1] + frames[f][2] + frames[f][3] : 0;
  const float mean = block_sums(numbers, of_warps[0]) / static_cast<float>(width);
#pragma unroll
  for (int f = 0; f < kFrames; ++f) {
    const float of_frame = __shfl_sync(~0u, mean, f * kLanes);
    numbers[f] = 0;
    for (float& x : frames[f]) {
      x -= of_frame;
      numbers[f] += x * x;
    }
    numbers[f] = valid ? numbers[f] : 0;
  }
  const float inverse =
      rsqrtf(block_sums(numbers, of_warps[warps]) / static_cast<float>(width) + kNormEpsilon);
  float weight[kChannels], bias[kChannels];
  load_vector(weight, static_cast<const T*>(norm.weight) + channel);
  load_vector(bias, static_cast<const T*>(norm.bias) + channel);
#pragma unroll
  for (int f = 0; f < kFrames; ++f) {
    const float of_frame = __shfl_sync(~0u, inverse, f * kLanes);
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      frames[f][c] = frames[f][c] * of_frame * weight[c] + bias[c];
  }
}

/// kKernel is the number of taps, or 0 for in.kernel. With kStreams, `rings` holds the gated unit's
/// output for frames before the step. A block of kPart threads computes no norm.
template <class T, int kKernel, int kBlock, bool kStreams>
__global__ void __launch_bounds__(kBlock, kTimeWarps * 32 / kBlock)
    convolve_kernel(const TimeConvolution in, const RowLayout layout, const LayerRings rings) {
  await_previous();
  constexpr int kFrames = kStep<kKernel>;
  const int utterance = blockIdx.y, first = blockIdx.x * in.run;
  const int length = layout.lengths[utterance];
  if (first >= length) return;
  const int own = static_cast<int>(blockIdx.z * blockDim.x + threadIdx.x) * kChannels;
  const bool valid = own < in.width;
  const int channel = valid ? own : 0;  // threads beyond the width repeat others, and store nothing
  const GatedFrames<T, kStreams> gated(in, layout, rings, utterance, length, channel);
  const auto tap = [&](int k) {
    return *reinterpret_cast<const float4*>(in.weight + static_cast<int64_t>(k) * in.width +
                                            channel);
  };
  const float4 bias = *reinterpret_cast<const float4*>(in.bias + channel);
  const auto add = [](float(&sum)[kChannels], const float4& w, const float(&value)[kChannels]) {
    sum[0] += w.x * value[0], sum[1] += w.y * value[1];
    sum[2] += w.z * value[2], sum[3] += w.w * value[3];
  };
  T* output = static_cast<T*>(in.output) +  // position of the next frame
              static_cast<int64_t>(layout.offsets[utterance] + first) * in.width + channel;

  // Each step begins with begin() and ends with finish().
  float sums[kFrames][kChannels];
  const auto begin = [&] {
#pragma unroll
    for (float(&sum)[kChannels] : sums) {
      sum[0] = bias.x, sum[1] = bias.y, sum[2] = bias.z, sum[3] = bias.w;
    }
  };
  const auto finish = [&](int frame) {
    if constexpr (kBlock != kPart) {
      __shared__ float of_warps[2 * kBlock / 32][kFrames];
      if (in.norm.weight != nullptr)
        norm_frames<T>(sums, in.norm, in.width, channel, valid, of_warps);
    }
#pragma unroll
    for (int f = 0; f < kFrames; ++f) {
      for (float& x : sums[f]) x = fast_silu(x);
      if (valid && frame + f < length) store_vector(output, sums[f]);
      output += in.width;
    }
  };

  const int end = min(first + in.run, length);
  if constexpr (kKernel > 0) {
    using Loaded = typename GatedFrames<T, kStreams>::Loaded;
    constexpr int kBefore = kKernel - 1;
    float window[kBefore + kFrames][kChannels];  // gated values from frame - in.left on
    Loaded next[kFrames];
    float4 weights[kKernel];
    {
      Loaded loaded[kBefore];
#pragma unroll
      for (int i = 0; i < kBefore; ++i) loaded[i] = gated.load(first - in.left + i);
#pragma unroll
      for (int i = 0; i < kFrames; ++i)
        next[i] = gated.template load<false>(first - in.left + kBefore + i);
#pragma unroll
      for (int k = 0; k < kKernel; ++k) weights[k] = tap(k);
#pragma unroll
      for (int i = 0; i < kBefore; ++i) gated.gate(window[i], loaded[i], first - in.left + i);
    }
    for (int frame = first; frame < end; frame += kFrames) {
      const int newest = frame - in.left + kBefore;  // in streams, the first frame of the step
#pragma unroll
      for (int i = 0; i < kFrames; ++i) {
        gated.template gate<false>(window[kBefore + i], next[i], newest + i);
        if (kStreams && valid) gated.keep(window[kBefore + i], newest + i);
      }
      if (frame + kFrames < end) {
#pragma unroll
        for (int i = 0; i < kFrames; ++i)
          next[i] = gated.template load<false>(newest + kFrames + i);
      }
      begin();
#pragma unroll
      for (int f = 0; f < kFrames; ++f) {
#pragma unroll
        for (int k = 0; k < kKernel; ++k) add(sums[f], weights[k], window[f + k]);
      }
      finish(frame);
#pragma unroll
      for (int i = 0; i < kBefore; ++i) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) window[i][c] = window[i + kFrames][c];
      }
    }
  } else {
    for (int frame = first; frame < end; frame += kFrames) {
      begin();
      for (int s = 0; s < kFrames + in.kernel - 1; ++s) {
        const int seen = frame - in.left + s;
        float value[kChannels];
        gated.gate(value, gated.load(seen), seen);
        if (kStreams && valid && seen >= frame) gated.keep(value, seen);
#pragma unroll
        for (int f = 0; f < kFrames; ++f) {
          if (s >= f && s - f < in.kernel) add(sums[f], tap(s - f), value);
        }
      }
      finish(frame);
    }
  }
}

/// Returns the frames of a block that walks along them. In a long run, few frames are gated by two
/// blocks. Short runs occupy all multiprocessors. `warps` is the number of warps that a run takes.
int run_of(const TimeConvolution& in, const RowLayout& layout, int warps) {
  // Blocks with a norm wait for each other's sums, so that they need more warps.
  const int64_t wanted = in.norm.weight != nullptr ? 4096 : 2048;
  const int64_t work = static_cast<int64_t>(layout.utterances) * layout.longest * warps;
  return static_cast<int>(std::clamp<int64_t>(
      round_up<int64_t>(ceil_div(work, wanted), kShortestRun), kShortestRun, kLongestRun));
}

template <class T, int kKernel, bool kStreams>
void launch(TimeConvolution in, const RowLayout& layout, cudaStream_t stream) {
  const LayerRings rings = kStreams ? *in.rings : LayerRings{};
  const int threads = round_up(ceil_div(in.width, kChannels), 32);
  const bool wide = in.norm.weight != nullptr && threads > 256;
  const bool walks = kKernel > 0 && !wide;  // other kernels compute each step by itself
  if (in.run == 0) in.run = walks ? run_of(in, layout, threads / 32) : kShortestRun;
  dim3 grid(static_cast<unsigned>(ceil_div(layout.longest, in.run)),
            static_cast<unsigned>(layout.utterances));
  if (in.norm.weight == nullptr) {
    grid.z = static_cast<unsigned>(ceil_div(threads, kPart));
    launch_dependent(convolve_kernel<T, kKernel, kPart, kStreams>, grid, kPart, 0, stream, in,
                     layout, rings);
  } else {
    const auto kernel = wide ? convolve_kernel<T, 0, kMostTimeThreads, kStreams>
                             : convolve_kernel<T, kKernel, 256, kStreams>;
    launch_dependent(kernel, grid, threads, 0, stream, in, layout, rings);
  }
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
