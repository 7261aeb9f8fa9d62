// Computes features on a GPU by three kernels around cuFFT's transform.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/config.h"
#include "models/encoder/encoder_interface.h"

namespace rtfx {

class FusedFeatures {
 public:
  /// Returns whether the kernels know these settings: power 2, logarithms and normalisation per
  /// feature.
  static bool supports(const FeatureConfig& config);

  /// window [n_fft] and filterbank [mel_bins, n_fft/2 + 1] are float32 on a GPU. Reads the
  /// filterbank on the host, once.
  FusedFeatures(const FeatureConfig& config, const at::Tensor& window,
                const at::Tensor& filterbank);

  /// Computes the same as FeatureExtractor. Enqueues and does not wait.
  Features operator()(const at::Tensor& audio, const at::Tensor& lengths) const;

 private:
  FeatureConfig config_;
  at::Tensor window_, filterbank_;
  at::Tensor ranges_;  // [mel_bins, 2] int32: the bins where a filter is not zero
};

}  // namespace rtfx
