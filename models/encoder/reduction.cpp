#include "models/encoder/reduction.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {

Reduction::Reduction(const EncoderConfig& config, const WeightReader& encoder)
    : factor_(config.reduction_factor) {
  if (config.reduction == EncoderConfig::Reduction::striding) {
    convolutions_.emplace(config.reduction_convolutions(), config.width,
                          encoder.below("reduction_subsampling").below("reduction_enc"));
  }
}

Subsampling::Output Reduction::operator()(const at::Tensor& frames,
                                          const at::Tensor& lengths) const {
  const at::Tensor x = frames.transpose(1, 2);
  if (convolutions_) return (*convolutions_)({x, lengths});
  at::Tensor left = lengths;
  // NeMo divides by the whole factor as often as by 2.
  for (int64_t f = 2; f <= factor_; f *= 2) left = at::floor_divide(left, factor_);
  const int64_t missing = std::max<int64_t>(0, factor_ - x.size(2));
  return {at::max_pool1d(at::constant_pad_nd(x, {0, missing}), factor_).transpose(1, 2), left};
}

}  // namespace rtfx
