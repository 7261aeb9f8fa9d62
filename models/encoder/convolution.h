// The depthwise convolution of a layer, and the norms that can or cannot be folded into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"

namespace rtfx {

/// A norm between a layer's depthwise convolution and its activation that cannot be folded into it.
class ConvolutionNorm {
 public:
  virtual ~ConvolutionNorm() = default;

  /// Maps x [B, d, T'], with any strides, to the same shape. norm_mask [B, 1, T'] float32 is 1 for
  /// frames that count in statistics over time. It may be undefined for a norm that treats each
  /// frame by itself.
  virtual at::Tensor operator()(const at::Tensor& x, const at::Tensor& norm_mask) const = 0;
};

/// Returns null where the norm is folded into the convolution.
std::unique_ptr<const ConvolutionNorm> make_convolution_norm(const EncoderConfig& config,
                                                             const WeightReader& norm);

/// Returns whether the norm computes its statistics over time.
bool norms_over_time(const EncoderConfig& config);

/// The depthwise convolution of a layer, into which a following batch norm is folded.
struct Depthwise {
  /// `conv` are the weights of the convolution module. The norm is folded in float32.
  Depthwise(const EncoderConfig& config, const WeightReader& conv);

  at::Tensor weight, bias;  // [d, 1, K], [d] or undefined; float32 on the CPU
  int64_t left, right;      // frames that the kernel reaches to each side
};

}  // namespace rtfx
