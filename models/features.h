// Log-mel features of NeMo's AudioToMelSpectrogramPreprocessor (2.5 and later), always in float32.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint.h"

namespace rtfx {

struct Features {
  at::Tensor values;   // [B, M, T] float32; frames at or beyond a row's length are 0
  at::Tensor lengths;  // [B] int64, floor(samples / hop)
};

class FeatureExtractor {
 public:
  /// Filterbank and window come from the checkpoint, or from their formulas where it has none.
  FeatureExtractor(const FeatureConfig& config, const StateDict& weights, at::Device device);

  /// y = ln(mel(|STFT(pre-emphasis(x))|^2) + 2^-24), normalised per utterance and mel bin over the
  /// valid frames (unbiased standard deviation + 1e-5).
  /// audio: [B, L] float32 in [-1, 1] on the device; samples at or beyond a row's length are
  /// ignored, whatever they hold. lengths: [B] int64 samples, same device. Does not synchronise.
  Features operator()(const at::Tensor& audio, const at::Tensor& lengths) const;

 private:
  FeatureConfig config_;
  at::Tensor window_;      // [n_fft], the Hann window centred in zeros
  at::Tensor filterbank_;  // [M, n_fft/2 + 1]
};

/// Slaney mel filterbank [mel_bins, n_fft/2 + 1] (area-normalised), 0 to sample_rate/2.
at::Tensor slaney_filterbank(int64_t sample_rate, int64_t n_fft, int64_t mel_bins);

}  // namespace rtfx
