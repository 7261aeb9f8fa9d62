#include "models/subsampling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace rtfx {
namespace {

at::Tensor half(const at::Tensor& lengths) { return at::floor_divide(lengths + 1, 2); }

at::Tensor masked(const at::Tensor& image, const at::Tensor& lengths) {
  return image *
         frame_mask(lengths, image.size(2)).unsqueeze(1).unsqueeze(3).to(image.scalar_type());
}

}  // namespace

at::Tensor frame_mask(const at::Tensor& lengths, int64_t frames) {
  return at::arange(frames, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

Subsampling::Subsampling(const EncoderConfig& config, int64_t mel_bins,
                         const WeightReader& pre_encode)
    : largest_image_(config.subsampling_channels * ((mel_bins + 1) / 2) / 2) {
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
  // x * sqrt(d) after a linear map is the map with scaled weights; scaled in float32 before the
  // cast.
  const double scale = config.x_scaling ? std::sqrt(static_cast<double>(config.width)) : 1.0;
  out_weight_ = pre_encode.place(pre_encode.raw("out.weight") * scale);
  out_bias_ = pre_encode.place(pre_encode.raw("out.bias") * scale);
}

at::Tensor Subsampling::convolve(at::Tensor image, const at::Tensor& lengths) const {
  at::Tensor valid = lengths;
  for (const Convolution& conv : convolutions_) {
    // Masked by length before each strided convolution: its kernel is what reaches over a row's
    // end.
    if (conv.stride == 2) image = masked(image, valid);
    const int64_t padding = conv.weight.size(2) / 2;
    image = at::conv2d(image, conv.weight, conv.bias, conv.stride, padding, 1, conv.groups);
    if (conv.relu) image = image.relu_();
    if (conv.stride == 2) valid = half(valid);
  }
  return image;
}

Subsampling::Output Subsampling::operator()(const Features& features) const {
  const at::Tensor image =
      features.values.transpose(1, 2).unsqueeze(1).to(out_weight_.scalar_type());
  // 32-bit indexing inside the convolutions bounds the rows of one call.
  const int64_t per_row = std::max<int64_t>(1, largest_image_ * image.size(2));
  const int64_t rows = std::max<int64_t>(1, std::numeric_limits<int32_t>::max() / per_row);
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < image.size(0); begin += rows) {
    const int64_t count = std::min(rows, image.size(0) - begin);
    const at::Tensor part =
        convolve(image.narrow(0, begin, count), features.lengths.narrow(0, begin, count));
    // [B, C, T', M'] -> [B, T', C * M']
    parts.push_back(at::linear(part.transpose(1, 2).flatten(2), out_weight_, out_bias_));
  }
  at::Tensor lengths = features.lengths;
  for (const Convolution& conv : convolutions_) {
    if (conv.stride == 2) lengths = half(lengths);
  }
  return {parts.size() == 1 ? parts.front() : at::cat(parts), lengths};
}

}  // namespace rtfx
