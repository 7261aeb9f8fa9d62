// The middle of the convolution module: the gated unit, the depthwise convolution over time, the
// norm of each frame (where the model has one) and SiLU. A block takes a run of frames of an
// utterance, and a thread takes four channels of them. The thread walks along the run. It keeps the
// gated values that its next outputs need in registers. It loads the frames of a step while it
// computes those before.

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

constexpr int kChannels = 4;
constexpr int kPart = 32;  // threads per block where no block has to see whole frames
constexpr int kMostTimeThreads = kWidestConvolution / kChannels;
constexpr int kTimeWarps = 16;  // warps that share the registers of a multiprocessor
constexpr auto kEpsilon = static_cast<float>(kNormEpsilon);

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
      rsqrtf(block_sums(numbers, of_warps[warps]) / static_cast<float>(width) + kEpsilon);
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
