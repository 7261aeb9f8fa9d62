// The depthwise convolution of a layer, and the norms that can or cannot be folded into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"

namespace rtfx {

/// The epsilon of an encoder's norms: PyTorch's default, which NeMo keeps.
inline constexpr double kNormEpsilon = 1e-5;

/// A norm between a layer's depthwise convolution and its activation that cannot be folded into it.
class ConvolutionNorm {
 public:
  virtual ~ConvolutionNorm() = default;

  /// x [B, d, T'] -> the same shape, any strides. norm_mask [B, 1, T'] float32: 1 for the frames
  /// that statistics over time are of; may be undefined for a norm of each frame by itself.
  virtual at::Tensor operator()(const at::Tensor& x, const at::Tensor& norm_mask) const = 0;
};

/// Null where the convolution has the norm in it.
std::unique_ptr<const ConvolutionNorm> make_convolution_norm(const EncoderConfig& config,
                                                             const WeightReader& norm);

/// Whether the norm's statistics are over time.
bool norms_over_time(const EncoderConfig& config);

/// The depthwise convolution of a layer, with a batch norm behind it folded in.
struct Depthwise {
  /// `conv`: the weights of the convolution module. Folded in float32.
  Depthwise(const EncoderConfig& config, const WeightReader& conv);

  at::Tensor weight, bias;  // [d, 1, K], [d] or undefined; float32 on the CPU
  int64_t left, right;      // frames that the kernel reaches to each side
};

}  // namespace rtfx
