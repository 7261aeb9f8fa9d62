// The depthwise convolution of a layer, with a batch norm behind it folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/config.h"
#include "models/checkpoint/weight_reader.h"

namespace rtfx {

struct Depthwise {
  /// `conv`: the weights of the convolution module. Folded in float32.
  Depthwise(const EncoderConfig& config, const WeightReader& conv);

  at::Tensor weight, bias;  // [d, 1, K], [d] or undefined; float32 on the CPU
  int64_t left, right;      // frames that the kernel reaches to each side
};

}  // namespace rtfx
