// The kernels of features on a GPU, around cuFFT's transform. As in kernels.h: float32 here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rtfx {

/// Windows of pre-emphasised audio, as the transform takes them.
struct FeatureWindows {
  const float* audio;      // [utterances, samples]; what lies at or beyond a length is not read
  const int64_t* lengths;  // [utterances] samples
  const float* window;     // [n_fft]
  float* frames;           // [utterances, count, n_fft] out; only frames within a length
  int64_t samples;
  int32_t utterances, count, n_fft, hop;
  float preemphasis;
};
void cut_windows(const FeatureWindows& in, cudaStream_t stream);

/// Logarithms of mel values of spectra.
struct MelValues {
  const float2* spectra;    // [utterances, count, bins]
  const int64_t* lengths;   // [utterances] samples
  const float* filterbank;  // [mel_bins, bins]
  const int32_t* ranges;    // [mel_bins, 2]: the first bin of a filter and the one behind its last
  float* values;            // [utterances, mel_bins, count] out; only frames within a length
  int32_t utterances, count, bins, mel_bins, hop;
  float guard;
  bool clamp;  // `guard` is the least value; else it is added
};
void mel_values(const MelValues& in, cudaStream_t stream);

/// Normalises each mel bin over the frames of an utterance in place: (x - mean) / (deviation +
/// 1e-5). Writes zeros beyond its frames. An utterance of one frame becomes empty.
struct FeatureNorm {
  float* values;           // [utterances, mel_bins, count]
  const int64_t* lengths;  // [utterances] samples
  int64_t* frame_lengths;  // [utterances] out
  int32_t utterances, mel_bins, count, hop;
};
void normalise_features(const FeatureNorm& in, cudaStream_t stream);

}  // namespace rtfx
