#include "models/encoder/subsampling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/encoder/epsilons.h"

namespace rtfx {

namespace {

/// Returns the factor of the linear map's weights. x * sqrt(d) after a linear map equals the map
/// with scaled weights. They are scaled in float32 before the cast.
double scale_of(const EncoderConfig& config) {
  return config.x_scaling ? std::sqrt(static_cast<double>(config.width)) : 1.0;
}

/// `begin` is undefined where all rows begin at 0.
at::Tensor masked(const at::Tensor& image, const at::Tensor& begin, const at::Tensor& end) {
  at::Tensor mask = frame_mask(end, image.size(2));
  if (begin.defined()) mask = mask.logical_and(frame_mask(begin, image.size(2)).logical_not());
  return image * mask.unsqueeze(1).unsqueeze(3).to(image.scalar_type());
}

}  // namespace

at::Tensor frame_mask(const at::Tensor& lengths, int64_t frames) {
  return at::arange(frames, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

Subsampling::Subsampling(const EncoderConfig& config, int64_t mel_bins,
                         const WeightReader& pre_encode)
    : causal_(config.causal_downsampling),
      largest_image_(config.subsampling_channels * config.halved(mel_bins) / 2) {
  const WeightReader conv = pre_encode.below("conv");
  const auto add = [&](int64_t index, int64_t stride, int64_t groups, bool relu) {
    const std::string name = std::to_string(index);
    convolutions_.push_back(
        {conv.get(name + ".weight"), conv.get(name + ".bias"), stride, groups, relu});
  };
  add(0, 2, 1, true);
  int64_t index = 2;
  for (int64_t factor = 4; factor <= config.subsampling_factor; factor *= 2) {
    if (config.depthwise_subsampling) {
      add(index, 2, config.subsampling_channels, false);
      add(index + 1, 1, 1, true);
      index += 3;
    } else {
      add(index, 2, 1, true);
      index += 2;
    }
  }
  const double scale = scale_of(config);
  out_weight_ = pre_encode.place(pre_encode.raw("out.weight") * scale);
  out_bias_ = pre_encode.place(pre_encode.raw("out.bias") * scale);
}

at::Tensor Subsampling::halved(const at::Tensor& lengths) const {
  if (!causal_) return at::floor_divide(lengths + 1, 2);
  // Zero frames stay zero, although their padding would make one.
  return at::floor_divide(lengths, 2) + (lengths > 0);
}

at::Tensor Subsampling::subsampled(const at::Tensor& lengths) const {
  at::Tensor left = lengths;
  for (const Convolution& conv : convolutions_) {
    if (conv.stride == 2) left = halved(left);
  }
  return left;
}

at::Tensor Subsampling::convolve(at::Tensor image, at::Tensor begin,
                                 const at::Tensor& lengths) const {
  at::Tensor valid = lengths;
  for (const Convolution& conv : convolutions_) {
    // Padding is masked before each strided convolution, because its kernel reaches over a row's
    // end.
    if (conv.stride == 2) image = masked(image, begin, valid);
    int64_t padding = conv.weight.size(2) / 2;
    if (causal_ && conv.stride == 2) {
      const int64_t before = conv.weight.size(2) - 1, after = conv.stride - 1;
      image = at::constant_pad_nd(image, {before, after, before, after});
      padding = 0;
    }
    image = at::conv2d(image, conv.weight, conv.bias, conv.stride, padding, 1, conv.groups);
    if (conv.relu) image = image.relu_();
    if (conv.stride != 2) continue;
    valid = halved(valid);
    if (begin.defined()) begin = at::floor_divide(begin, 2);
  }
  return image;
}

/// Maps [B, C, T', M'] to [B, T', d].
at::Tensor Subsampling::flattened(const at::Tensor& image) const {
  return at::linear(image.transpose(1, 2).flatten(2), out_weight_, out_bias_);
}

at::Tensor Subsampling::part(const at::Tensor& values, const at::Tensor& begin,
                             const at::Tensor& end) const {
  const at::Tensor image = values.transpose(1, 2).unsqueeze(1).to(out_weight_.scalar_type());
  return flattened(convolve(image, begin, end));
}

Subsampling::Output Subsampling::operator()(const Features& features) const {
  const at::Tensor image =
      features.values.transpose(1, 2).unsqueeze(1).to(out_weight_.scalar_type());
  // The convolutions use 32-bit indices, which limits the rows of one call.
  const int64_t per_row = std::max<int64_t>(1, largest_image_ * image.size(2));
  const int64_t rows = std::max<int64_t>(1, std::numeric_limits<int32_t>::max() / per_row);
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < image.size(0); begin += rows) {
    const int64_t count = std::min(rows, image.size(0) - begin);
    parts.push_back(flattened(
        convolve(image.narrow(0, begin, count), {}, features.lengths.narrow(0, begin, count))));
  }
  return {parts.size() == 1 ? parts.front() : at::cat(parts), subsampled(features.lengths)};
}

Stacking::Stacking(const EncoderConfig& config, const WeightReader& encoder)
    : factor_(config.subsampling_factor) {
  const WeightReader pre_encode = encoder.below("pre_encode");
  const WeightReader out = factor_ == 1 ? pre_encode : pre_encode.below("proj_out");
  const double scale = scale_of(config);
  out_weight_ = out.place(out.raw("weight") * scale);
  out_bias_ = out.place(out.raw("bias") * scale);
  norm_weight_ = pre_encode.optional("pre_norm.weight");
  norm_bias_ = pre_encode.optional("pre_norm.bias");
}

Subsampling::Output Stacking::operator()(const Features& features) const {
  const int64_t rows = features.values.size(0), bins = features.values.size(1);
  const int64_t stacks = std::max<int64_t>(1, features.values.size(2) / factor_);
  // An incomplete last stack is no frame. A batch of nothing else still needs a shape.
  at::Tensor x = features.values.size(2) < factor_
                     ? at::constant_pad_nd(features.values, {0, factor_ - features.values.size(2)})
                     : features.values.narrow(2, 0, stacks * factor_);
  x = x.transpose(1, 2).to(out_weight_.scalar_type());
  if (norm_weight_.defined()) x = at::layer_norm(x, {bins}, norm_weight_, norm_bias_, kNormEpsilon);
  return {at::linear(x.reshape({rows, stacks, factor_ * bins}), out_weight_, out_bias_),
          subsampled(features.lengths)};
}

at::Tensor Stacking::subsampled(const at::Tensor& lengths) const {
  return at::floor_divide(lengths, factor_);
}

FrontEnd make_front_end(const EncoderConfig& config, int64_t mel_bins,
                        const WeightReader& encoder) {
  if (config.front_end == EncoderConfig::FrontEnd::stacking) return Stacking(config, encoder);
  return Subsampling(config, mel_bins, encoder.below("pre_encode"));
}

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
  // NeMo divides by the whole factor, once for each factor 2 in it.
  for (int64_t f = 2; f <= factor_; f *= 2) left = at::floor_divide(left, factor_);
  const int64_t missing = std::max<int64_t>(0, factor_ - x.size(2));
  return {at::max_pool1d(at::constant_pad_nd(x, {0, missing}), factor_).transpose(1, 2), left};
}

}  // namespace rtfx
