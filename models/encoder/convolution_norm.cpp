#include "models/encoder/convolution_norm.h"

#include <ATen/ATen.h>

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

/// Normalises groups of channels over time: group norm, or instance norm with one channel a group.
class GroupNorm : public ConvolutionNorm {
 public:
  GroupNorm(int64_t groups, const WeightReader& norm)
      : groups_(groups), weight_(norm.optional("weight")), bias_(norm.optional("bias")) {}

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& norm_mask) const override {
    const int64_t rows = x.size(0), channels = x.size(1) / groups_, frames = x.size(2);
    const at::Tensor values = x.to(at::kFloat).reshape({rows, groups_, channels, frames});
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

}  // namespace rtfx
