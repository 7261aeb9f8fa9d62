#include "base/gpu/check.h"
#include "base/gpu/rounding.h"
#include "models/encoder/fused/feature_kernels.h"

namespace rtfx {
namespace {

constexpr int kThreads = 128;
constexpr float kDeviationGuard = 1e-5f;

__device__ int frames_of(int64_t samples, int hop, int count) {
  return static_cast<int>(min(samples / hop, static_cast<int64_t>(count)));
}

__global__ void __launch_bounds__(kThreads) windows_kernel(const FeatureWindows of) {
  const int utterance = blockIdx.y, frame = blockIdx.x;
  const int64_t length = of.lengths[utterance];
  if (frame >= frames_of(length, of.hop, of.count)) return;
  const float* const audio = of.audio + utterance * of.samples;
  float* const to = of.frames + (static_cast<int64_t>(utterance) * of.count + frame) * of.n_fft;
  const int64_t first = static_cast<int64_t>(frame) * of.hop - of.n_fft / 2;
  for (int n = threadIdx.x; n < of.n_fft; n += kThreads) {
    const int64_t i = first + n;
    float value = 0;
    if (i >= 0 && i < length) value = audio[i] - (i > 0 ? of.preemphasis * audio[i - 1] : 0);
    to[n] = value * of.window[n];
  }
}

constexpr int kMelThreads = 256, kFrames = 16;

__global__ void __launch_bounds__(kMelThreads) mel_kernel(const MelValues of) {
  extern __shared__ float power[];  // [kFrames, bins]: bins are odd, so rows begin in other banks
  const int utterance = blockIdx.y, first = blockIdx.x * kFrames;
  const int frames = frames_of(of.lengths[utterance], of.hop, of.count);
  if (first >= frames) return;
  const float2* const spectra =
      of.spectra + (static_cast<int64_t>(utterance) * of.count + first) * of.bins;
  const int valid = min(kFrames, frames - first);
  for (int i = threadIdx.x; i < valid * of.bins; i += kMelThreads) {
    const float2 s = spectra[i];
    power[i] = s.x * s.x + s.y * s.y;
  }
  __syncthreads();
  const int frame = static_cast<int>(threadIdx.x) % kFrames;
  if (frame >= valid) return;
  for (int m = static_cast<int>(threadIdx.x) / kFrames; m < of.mel_bins;
       m += kMelThreads / kFrames) {
    const float* const filter = of.filterbank + static_cast<int64_t>(m) * of.bins;
    float sum = 0;
    for (int k = of.ranges[2 * m]; k < of.ranges[2 * m + 1]; ++k)
      sum += filter[k] * power[frame * of.bins + k];
    of.values[(static_cast<int64_t>(utterance) * of.mel_bins + m) * of.count + first + frame] =
        logf(of.clamp ? fmaxf(sum, of.guard) : sum + of.guard);
  }
}

__device__ float block_sum(float value) {
  __shared__ float of_warps[kThreads / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  __syncthreads();  // all have read those of the last call
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (const float other : of_warps) value += other;
  return value;
}

__global__ void __launch_bounds__(kThreads) norm_features_kernel(const FeatureNorm of) {
  const int mel = blockIdx.x, utterance = blockIdx.y;
  const int frames = frames_of(of.lengths[utterance], of.hop, of.count);
  float* const values =
      of.values + (static_cast<int64_t>(utterance) * of.mel_bins + mel) * of.count;
  float sum = 0;
  for (int t = threadIdx.x; t < frames; t += kThreads) sum += values[t];
  const float mean = block_sum(sum) / static_cast<float>(frames);
  float squares = 0;
  for (int t = threadIdx.x; t < frames; t += kThreads)
    squares += (values[t] - mean) * (values[t] - mean);
  const float deviation =
      frames > 1 ? sqrtf(block_sum(squares) / static_cast<float>(frames - 1)) : 0;
  const float inverse = 1 / (deviation + kDeviationGuard);
  for (int t = threadIdx.x; t < of.count; t += kThreads)
    values[t] = t < frames ? (values[t] - mean) * inverse : 0;
  if (mel == 0 && threadIdx.x == 0) of.frame_lengths[utterance] = frames > 1 ? frames : 0;
}

}  // namespace

void cut_windows(const FeatureWindows& of, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(of.count), static_cast<unsigned>(of.utterances));
  windows_kernel<<<grid, kThreads, 0, stream>>>(of);
  RTFX_CUDA(cudaGetLastError());
}

void mel_values(const MelValues& of, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(of.count, kFrames)),
                  static_cast<unsigned>(of.utterances));
  const size_t shared = sizeof(float) * kFrames * static_cast<size_t>(of.bins);
  RTFX_CUDA(cudaFuncSetAttribute(mel_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared)));
  mel_kernel<<<grid, kMelThreads, shared, stream>>>(of);
  RTFX_CUDA(cudaGetLastError());
}

void normalise_features(const FeatureNorm& of, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(of.mel_bins), static_cast<unsigned>(of.utterances));
  norm_features_kernel<<<grid, kThreads, 0, stream>>>(of);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
