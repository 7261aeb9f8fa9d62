// Log-mel features of NeMo's AudioToMelSpectrogramPreprocessor (2.5 and later), always in float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/checkpoint/checkpoint.h"
#include "models/encoder/encoder_interface.h"

namespace rtfx {

class FusedFeatures;

class FeatureExtractor {
 public:
  /// Takes filterbank and window from the checkpoint, or computes them where it has none. `fused`
  /// asks for kernels of several steps each (fused/fused_features.h). They run on a GPU if they
  /// know the settings. Otherwise LibTorch's operators run. Throws NotFinite.
  FeatureExtractor(const FeatureConfig& config, const StateDict& weights, at::Device device,
                   bool fused = true);

  /// Computes y = ln(mel(|STFT(pre-emphasis(x))|^2) + 2^-24), where FeatureConfig sets the power 2
  /// and the guard 2^-24. y is normalised over the valid frames of a row (unbiased standard
  /// deviation + 1e-5). The model normalises each mel bin by itself, all bins together, with
  /// numbers of its own, or not at all.
  ///
  /// audio: [B, L] float32 in [-1, 1] on the device; samples at or beyond a row's length are
  /// ignored. lengths: [B] int64 samples, on the same device. Does not synchronise, except that a
  /// GPU waits for the default stream at the first batch of each size (TransformPlans).
  Features operator()(const at::Tensor& audio, const at::Tensor& lengths) const;

  /// Computes features of a part of an utterance, by LibTorch's operators. The model must normalise
  /// with numbers of its own, or not at all. samples [B, 1 + n_fft + (T - 1) * hop] float32 holds
  /// the part, and before it one sample for the pre-emphasis. Frame t reads n_fft samples from 1 +
  /// t * hop on. valid [B, n_fft + (T - 1) * hop] bool marks samples of the utterance; all others
  /// are silence. Returns [B, M, T] without a mask. Synchronises as the operator above does.
  at::Tensor part(const at::Tensor& samples, const at::Tensor& valid) const;

 private:
  /// Maps emphasised [B, n_fft + (T - 1) * hop], with T >= frames, to [B, M, frames].
  at::Tensor mel_frames(const at::Tensor& emphasised, int64_t frames) const;
  at::Tensor mel(const at::Tensor& power) const;
  /// Normalises values [B, M, T]. mask is [B, 1, T] bool, and frames [B] int64 counts the valid
  /// frames.
  at::Tensor normalised(const at::Tensor& values, const at::Tensor& mask,
                        const at::Tensor& frames) const;

  FeatureConfig config_;
  at::Tensor window_;                           // [n_fft], centred in zeros
  at::Tensor filterbank_;                       // [M, n_fft/2 + 1]
  at::Tensor fixed_mean_, fixed_scale_;         // [M, 1], or undefined
  at::Tensor zero_;                             // []
  std::shared_ptr<const FusedFeatures> fused_;  // null where operators compute the features
};

/// Returns the Slaney mel filterbank [mel_bins, n_fft/2 + 1] (area-normalised), 0 to sample_rate/2.
at::Tensor slaney_filterbank(int64_t sample_rate, int64_t n_fft, int64_t mel_bins);

}  // namespace rtfx
