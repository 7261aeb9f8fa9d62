// The output of an encoder.
#pragma once

#include <ATen/core/Tensor.h>

namespace rtfx {

struct Encoded {
  at::Tensor frames;   // [B, T', D] in the encoder's dtype; undefined beyond a row's length
  at::Tensor lengths;  // [B] int64, EncoderConfig::subsampled() of the feature frames
};

}  // namespace rtfx
