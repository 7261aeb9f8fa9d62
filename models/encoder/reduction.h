// Fewer frames once more between two layers, or behind the last: NeMo's SubsamplingReductionModule.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "models/encoder/subsampling.h"

namespace rtfx {

class Reduction {
 public:
  /// `encoder`: the weights below "encoder.".
  Reduction(const EncoderConfig& config, const WeightReader& encoder);

  /// frames [B, T', d], lengths [B] -> [B, T' / factor, d] (at least one frame) and
  /// EncoderConfig::reduced(). Pooling takes the greatest of each channel and drops an incomplete
  /// last group of frames; what is longer by NeMo's lengths lies beyond a row's end.
  Subsampling::Output operator()(const at::Tensor& frames, const at::Tensor& lengths) const;

 private:
  int64_t factor_;
  std::optional<Subsampling> convolutions_;  // or pooling
};

}  // namespace rtfx
