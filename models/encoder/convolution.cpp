#include "models/encoder/convolution.h"

#include <ATen/ATen.h>

#include <optional>

#include "models/checkpoint/score_dtype.h"
#include "models/encoder/epsilons.h"

namespace rtfx {

namespace {

/// Normalises each frame over its channels.
class ChannelNorm : public ConvolutionNorm {
 public:
  explicit ChannelNorm(const WeightReader& norm)
      : weight_(norm.get("weight")), bias_(norm.get("bias")) {}

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& /*norm_mask*/) const override {
    return at::layer_norm(x.transpose(1, 2), weight_.sizes(), weight_, bias_, kNormEpsilon)
        .transpose(1, 2);
  }

 private:
  at::Tensor weight_, bias_;
};

/// Normalises groups of channels over time. Instance norm has one channel per group.
class GroupNorm : public ConvolutionNorm {
 public:
  GroupNorm(int64_t groups, const WeightReader& norm)
      : groups_(groups), weight_(norm.optional("weight")), bias_(norm.optional("bias")) {}

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& norm_mask) const override {
    const int64_t rows = x.size(0), channels = x.size(1) / groups_, frames = x.size(2);
    const at::Tensor values =
        x.to(score_dtype(x.scalar_type())).reshape({rows, groups_, channels, frames});
    const at::Tensor mask = norm_mask.unsqueeze(1);
    const at::Tensor count = (mask.sum(3, true) * channels).clamp_min(1);  // [B, 1, 1, 1]
    const at::Tensor mean = (values * mask).sum({2, 3}, true) / count;
    const at::Tensor centred = values - mean;
    const at::Tensor variance = (centred * mask).square().sum({2, 3}, true) / count;
    const at::Tensor normed =
        (centred / (variance + kNormEpsilon).sqrt()).view(x.sizes()).to(x.scalar_type());
    if (!weight_.defined()) return normed;
    return at::addcmul(bias_.unsqueeze(1), normed, weight_.unsqueeze(1));
  }

 private:
  int64_t groups_;
  at::Tensor weight_, bias_;
};

}  // namespace

std::unique_ptr<const ConvolutionNorm> make_convolution_norm(const EncoderConfig& config,
                                                             const WeightReader& norm) {
  using Norm = EncoderConfig::ConvolutionNorm;
  switch (config.conv_norm) {
    case Norm::layer:
      return std::make_unique<ChannelNorm>(norm);
    case Norm::group:
      return std::make_unique<GroupNorm>(config.norm_groups, norm);
    case Norm::instance:
      return std::make_unique<GroupNorm>(config.width, norm);
    case Norm::batch:
    case Norm::fused_batch:
      break;
  }
  return nullptr;
}

bool norms_over_time(const EncoderConfig& config) {
  return config.conv_norm == EncoderConfig::ConvolutionNorm::group ||
         config.conv_norm == EncoderConfig::ConvolutionNorm::instance;
}

namespace {

/// A norm of the form (x - mean) * scale + shift for each channel.
struct Affine {
  at::Tensor mean, scale, shift;
};

/// Returns batch norm in this form, also where NeMo has reduced its four numbers to two
/// (fused_batch_norm).
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
