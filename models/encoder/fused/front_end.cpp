#include "models/encoder/fused/front_end.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/nvtx.h"
#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

/// Reorders convolutions [C, 1, 3, 3] to [9, C], where channels of one tap lie side by side.
at::Tensor taps(const at::Tensor& weight, at::Device device) {
  return weight.flatten(1).transpose(0, 1).contiguous().to(device);
}

bool has_kernels(const EncoderConfig& config) {
  return config.front_end == EncoderConfig::FrontEnd::convolution && config.depthwise_subsampling &&
         config.subsampling_factor >= 4 && config.subsampling_channels % 8 == 0 &&
         config.subsampling_channels <= 1024;
}

}  // namespace

FusedFrontEnd::FusedFrontEnd(const EncoderConfig& config, int64_t mel_bins,
                             const WeightReader& encoder)
    : config_(config), dtype_(encoder.dtype()) {
  if (!has_kernels(config)) {
    reference_.emplace(make_front_end(config, mel_bins, encoder));
    return;
  }
  const WeightReader pre_encode = encoder.below("pre_encode"), conv = pre_encode.below("conv");
  const at::Device device = encoder.device();
  const auto stage = [&](int index) {
    const std::string name = std::to_string(index);
    return Stage{taps(conv.raw(name + ".weight"), device), conv.raw(name + ".bias").to(device), {}};
  };
  stages_.push_back(stage(0));
  int index = 2;
  for (int64_t factor = 4; factor <= config.subsampling_factor; factor *= 2, index += 3) {
    stages_.push_back(stage(index));
    const std::string pointwise = std::to_string(index + 1);
    stages_.back().pointwise.emplace(conv.raw(pointwise + ".weight").flatten(1),
                                     conv.raw(pointwise + ".bias"), device, dtype_, false);
  }
  // The columns are ordered by channel in the checkpoint, and by bin here.
  const at::Tensor weight = pre_encode.raw("out.weight");
  const int64_t channels = config.subsampling_channels, bins = weight.size(1) / channels;
  const double scale = config.x_scaling ? std::sqrt(static_cast<double>(config.width)) : 1;
  out_.emplace(weight.view({-1, channels, bins}).transpose(1, 2).flatten(1),
               pre_encode.raw("out.bias"), device, dtype_, false, scale);
}

FusedFrontEnd::Output FusedFrontEnd::operator()(const Features& features, int64_t rows) const {
  const ScopedRange range(RangeName::encoder_subsampling);
  return reference_ ? reference(features, rows) : convolve(features, rows);
}

Subsampling::Output FusedFrontEnd::part(const at::Tensor& values, const at::Tensor& begin,
                                        const at::Tensor& end) const {
  const ScopedRange range(RangeName::encoder_subsampling);
  if (reference_) {
    const auto& convolutions = std::get<Subsampling>(*reference_);
    return {convolutions.part(values, begin, end), convolutions.subsampled(end)};
  }
  const int64_t frames = config_.subsampled(values.size(2));
  const Output output = convolve({values, end, {}}, values.size(0) * frames, begin);
  return {output.frames.view({values.size(0), frames, -1}), output.batch.encoded_lengths};
}

FusedFrontEnd::Output FusedFrontEnd::convolve(const Features& features, int64_t rows,
                                              const at::Tensor& begins) const {
  const at::Tensor& mel = features.values;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(mel.device().index()).stream();
  const Precision precision = half_precision_of(dtype_, "the fused encoder");
  const auto strides = static_cast<int32_t>(stages_.size());
  const int64_t channels = config_.subsampling_channels;
  const int64_t frames = std::max<int64_t>(1, config_.subsampled(mel.size(2)));
  BatchRows batch =
      plan_rows(features.lengths, strides, config_.causal_downsampling, rows, frames, begins);
  const auto* const lengths = data_of<int32_t>(batch.lengths);
  const auto begins_of = [&](int level) -> const int32_t* {
    if (!batch.begins.defined()) return nullptr;
    return data_of<int32_t>(batch.begins) + static_cast<int64_t>(level) * batch.utterances();
  };
  const auto* const offsets = data_of<int32_t>(batch.offsets);
  const int32_t utterances = batch.utterances(), before = config_.causal_downsampling ? 2 : 1;
  const at::TensorOptions options = mel.options().dtype(dtype_);
  const auto padded_frames = [&](int level) {
    int64_t extent = mel.size(2);
    for (int i = 0; i < level; ++i) extent = config_.halved(extent);
    return static_cast<int32_t>(extent);
  };

  int64_t bins = config_.halved(config_.halved(mel.size(1)));
  int32_t scale = strides - 2;
  at::Tensor image = at::empty({rows << scale, bins, channels}, options);
  const auto data = [](const at::Tensor& t) { return data_of<float>(t); };
  first_convolutions(
      precision,
      {data(mel), lengths, begins_of(0), offsets, data(stages_[0].weight), data(stages_[1].weight),
       data(stages_[0].bias), data(stages_[1].bias), image.mutable_data_ptr(), utterances,
       static_cast<int32_t>(mel.size(1)), static_cast<int32_t>(mel.size(2)),
       static_cast<int32_t>(channels), before, padded_frames(2), scale},
      stream);
  for (int level = 2;; ++level) {
    const at::Tensor mixed = at::empty_like(image);
    (*stages_[level - 1].pointwise)({image.view({-1, channels}), {}}, mixed.view({-1, channels}),
                                    Linear::Result::replace_relu);
    if (level == strides) {
      at::Tensor encoded = at::empty({rows, out_->width()}, options);
      (*out_)({mixed.view({rows, -1}), {}}, encoded);
      return {encoded, batch};
    }
    --scale;
    const int64_t halved = config_.halved(bins);
    image = at::empty({rows << scale, halved, channels}, options);
    depthwise_stride(precision,
                     {mixed.const_data_ptr(), lengths + static_cast<int64_t>(level) * utterances,
                      begins_of(level), offsets, data(stages_[level].weight),
                      data(stages_[level].bias), image.mutable_data_ptr(), utterances,
                      static_cast<int32_t>(bins), static_cast<int32_t>(halved),
                      static_cast<int32_t>(channels), before, padded_frames(level + 1), scale},
                     stream);
    bins = halved;
  }
}

FusedFrontEnd::Output FusedFrontEnd::reference(const Features& features, int64_t rows) const {
  const auto [frames, lengths] =
      std::visit([&](const auto& f) { return f(features); }, *reference_);
  const at::Tensor padded = frames.contiguous();
  BatchRows batch = plan_rows(lengths, 0, false, rows, padded.size(1));
  at::Tensor packed = at::empty({rows, padded.size(2)}, padded.options());
  pack_rows(half_precision_of(dtype_, "the fused encoder"), padded.const_data_ptr(),
            static_cast<int32_t>(padded.size(1)), static_cast<int32_t>(padded.size(2)),
            batch.layout(), packed.mutable_data_ptr(),
            c10::cuda::getCurrentCUDAStream(padded.device().index()).stream());
  return {packed, batch};
}

}  // namespace rtfx
