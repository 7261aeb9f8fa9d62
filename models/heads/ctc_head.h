// The CTC head: a 1x1 convolution over encoder frames, i.e. one linear map.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

class CtcHead {
 public:
  /// weight [V+1, D] or [V+1, D, 1], bias [V+1].
  CtcHead(const at::Tensor& weight, const at::Tensor& bias);

  /// frames [B, T', D] -> logits [B, T', V+1], same dtype. Blank is the last column.
  at::Tensor logits(const at::Tensor& frames) const;

  const at::Tensor& weight() const { return weight_; }  // [V+1, D]
  const at::Tensor& bias() const { return bias_; }      // [V+1]

 private:
  at::Tensor weight_, bias_;
};

}  // namespace rtfx
