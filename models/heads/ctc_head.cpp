#include "models/heads/ctc_head.h"

#include <ATen/ATen.h>

namespace rtfx {

CtcHead::CtcHead(const at::Tensor& weight, const at::Tensor& bias)
    : weight_(weight.reshape({weight.size(0), weight.size(1)})), bias_(bias) {}

at::Tensor CtcHead::logits(const at::Tensor& frames) const {
  return at::linear(frames, weight_, bias_);
}

}  // namespace rtfx
