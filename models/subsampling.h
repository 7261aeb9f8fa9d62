// Convolutional sub-sampling in front of the encoder: dw_striding (FastConformer) and striding.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/config.h"
#include "models/features.h"
#include "models/weight_reader.h"

namespace rtfx {

class Subsampling {
 public:
  Subsampling(const EncoderConfig& config, int64_t mel_bins, const WeightReader& pre_encode);

  struct Output {
    at::Tensor frames;   // [B, T', d]
    at::Tensor lengths;  // [B] int64
  };

  /// features [B, M, T] float32 -> [B, ceil(T / factor), d] in the weights' dtype, scaled by
  /// sqrt(d) where the model asks for it. Padding is zeroed before every convolution.
  Output operator()(const Features& features) const;

 private:
  struct Convolution {
    at::Tensor weight, bias;
    int64_t stride = 2, groups = 1;
    bool relu = true;  // none between a depthwise convolution and its pointwise one
  };

  at::Tensor convolve(at::Tensor image, const at::Tensor& lengths) const;

  std::vector<Convolution> convolutions_;
  at::Tensor out_weight_, out_bias_;
  int64_t largest_image_;  // elements of the first convolution's output per feature frame
};

/// [B, T] bool: true for frames below the row's length.
at::Tensor frame_mask(const at::Tensor& lengths, int64_t frames);

}  // namespace rtfx
