#include "models/encoder/depthwise.h"

#include <ATen/ATen.h>

#include <optional>

#include "models/encoder/convolution_norm.h"

namespace rtfx {
namespace {

/// A norm that is (x - mean) * scale + shift for each channel.
struct Affine {
  at::Tensor mean, scale, shift;
};

/// Batch norm, also where NeMo has made two numbers of its four (fused_batch_norm).
std::optional<Affine> foldable(const EncoderConfig& config, const WeightReader& norm) {
  const at::Tensor weight = norm.raw("weight"), bias = norm.raw("bias");
  if (config.conv_norm == EncoderConfig::ConvolutionNorm::fused_batch)
    return Affine{at::zeros_like(bias), weight, bias};
  if (config.conv_norm != EncoderConfig::ConvolutionNorm::batch) return std::nullopt;
  return Affine{norm.raw("running_mean"), weight / (norm.raw("running_var") + kNormEpsilon).sqrt(),
                bias};
}

}  // namespace

Depthwise::Depthwise(const EncoderConfig& config, const WeightReader& conv)
    : weight(conv.raw("depthwise_conv.weight")),
      bias(conv.raw("depthwise_conv.bias")),
      right(config.conv_right_context >= 0 ? config.conv_right_context
                                           : (config.conv_kernel - 1) / 2) {
  left = config.conv_kernel - 1 - right;
  const auto affine = foldable(config, conv.below("batch_norm"));
  if (!affine) return;
  weight = weight * affine->scale.view({-1, 1, 1});
  bias = (bias.defined() ? bias - affine->mean : -affine->mean) * affine->scale + affine->shift;
}

}  // namespace rtfx
