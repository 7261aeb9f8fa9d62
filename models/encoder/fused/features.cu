#include "base/gpu/dependent_launch.cuh"
#include "base/gpu/rounding.h"
#include "base/gpu/shared_memory.h"
#include "base/gpu/warp.cuh"
#include "models/encoder/epsilons.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {
namespace {

constexpr int kThreads = 128;
constexpr auto kGuard = static_cast<float>(kDeviationGuard);

__device__ int frames_of(int64_t samples, int hop, int count) {
  return static_cast<int>(min(samples / hop, static_cast<int64_t>(count)));
}

__global__ void __launch_bounds__(kThreads) windows_kernel(const FeatureWindows in) {
  await_previous();
  const int utterance = blockIdx.y, frame = blockIdx.x;
  const int64_t length = in.lengths[utterance];
  if (frame >= frames_of(length, in.hop, in.count)) return;
  const float* const audio = in.audio + utterance * in.samples;
  float* const to = in.frames + (static_cast<int64_t>(utterance) * in.count + frame) * in.n_fft;
  const int64_t first = static_cast<int64_t>(frame) * in.hop - in.n_fft / 2;
  for (int n = threadIdx.x; n < in.n_fft; n += kThreads) {
    const int64_t i = first + n;
    float value = 0;
    if (i >= 0 && i < length) value = audio[i] - (i > 0 ? in.preemphasis * audio[i - 1] : 0);
    to[n] = value * in.window[n];
  }
}

constexpr int kMelThreads = 256, kFrames = 16;

__global__ void __launch_bounds__(kMelThreads) mel_kernel(const MelValues in) {
  await_previous();
  extern __shared__ float power[];  // [kFrames, bins]; odd bins make rows begin in other banks
  const int utterance = blockIdx.y, first = blockIdx.x * kFrames;
  const int frames = frames_of(in.lengths[utterance], in.hop, in.count);
  if (first >= frames) return;
  const float2* const spectra =
      in.spectra + (static_cast<int64_t>(utterance) * in.count + first) * in.bins;
  const int valid = min(kFrames, frames - first);
  for (int i = threadIdx.x; i < valid * in.bins; i += kMelThreads) {
    const float2 s = spectra[i];
    power[i] = s.x * s.x + s.y * s.y;
  }
  __syncthreads();
  const int frame = static_cast<int>(threadIdx.x) % kFrames;
  if (frame >= valid) return;
  for (int m = static_cast<int>(threadIdx.x) / kFrames; m < in.mel_bins;
       m += kMelThreads / kFrames) {
    const float* const filter = in.filterbank + static_cast<int64_t>(m) * in.bins;
    float sum = 0;
    for (int k = in.ranges[2 * m]; k < in.ranges[2 * m + 1]; ++k)
      sum += filter[k] * power[frame * in.bins + k];
    in.values[(static_cast<int64_t>(utterance) * in.mel_bins + m) * in.count + first + frame] =
        logf(in.clamp ? fmaxf(sum, in.guard) : sum + in.guard);
  }
}

__device__ float block_sum(float value) {
  __shared__ float of_warps[kThreads / 32];
  value = warp_sum(value);
  __syncthreads();  // all have read the sums of the last call
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (const float other : of_warps) value += other;
  return value;
}

__global__ void __launch_bounds__(kThreads) norm_features_kernel(const FeatureNorm in) {
  await_previous();
  const int mel = blockIdx.x, utterance = blockIdx.y;
  const int frames = frames_of(in.lengths[utterance], in.hop, in.count);
  float* const values =
      in.values + (static_cast<int64_t>(utterance) * in.mel_bins + mel) * in.count;
  float sum = 0;
  for (int t = threadIdx.x; t < frames; t += kThreads) sum += values[t];
  const float mean = block_sum(sum) / static_cast<float>(frames);
  float squares = 0;
  for (int t = threadIdx.x; t < frames; t += kThreads)
    squares += (values[t] - mean) * (values[t] - mean);
  const float deviation =
      frames > 1 ? sqrtf(block_sum(squares) / static_cast<float>(frames - 1)) : 0;
  const float inverse = 1 / (deviation + kGuard);
  for (int t = threadIdx.x; t < in.count; t += kThreads)
    values[t] = t < frames ? (values[t] - mean) * inverse : 0;
  if (mel == 0 && threadIdx.x == 0) in.frame_lengths[utterance] = frames > 1 ? frames : 0;
}

}  // namespace

void cut_windows(const FeatureWindows& in, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(in.count), static_cast<unsigned>(in.utterances));
  launch_dependent(windows_kernel, grid, kThreads, 0, stream, in);
}

void mel_values(const MelValues& in, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(in.count, kFrames)),
                  static_cast<unsigned>(in.utterances));
  const size_t shared = sizeof(float) * kFrames * static_cast<size_t>(in.bins);
  const void* const kernel = reinterpret_cast<const void*>(mel_kernel);
  static const int64_t most = most_launch_bytes(kernel);
  allow_launch_bytes(kernel, most);
  launch_dependent(mel_kernel, grid, kMelThreads, shared, stream, in);
}

void normalise_features(const FeatureNorm& in, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(in.mel_bins), static_cast<unsigned>(in.utterances));
  launch_dependent(norm_features_kernel, grid, kThreads, 0, stream, in);
}

}  // namespace rtfx
