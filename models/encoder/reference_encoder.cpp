#include "models/encoder/reference_encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/nvtx.h"
#include "base/stop.h"

namespace rtfx {

ReferenceEncoder::ReferenceEncoder(const EncoderConfig& config, int64_t mel_bins,
                                   const WeightReader& reader)
    : config_(config),
      silence_(norms_over_time(config) ? config.front_end == EncoderConfig::FrontEnd::stacking
                                             ? config.subsampling_factor
                                             : 1
                                       : 0),
      front_end_(make_front_end(config, mel_bins, reader)),
      out_weight_(reader.optional("out_proj.weight")),
      out_bias_(reader.optional("out_proj.bias")) {
  for (int64_t i = 0; i < config.layers; ++i)
    layers_.emplace_back(config, reader.below(fmt::format("layers.{}", i)));
  if (config.reduction != EncoderConfig::Reduction::none) reduction_.emplace(config, reader);
}

Encoded ReferenceEncoder::subsample(const Features& features) const {
  const ScopedRange range(RangeName::encoder_subsampling);
  Features input = features;
  if (silence_ > 0) input.values = at::constant_pad_nd(input.values, {0, silence_});
  auto [frames, lengths] = std::visit([&](const auto& f) { return f(input); }, front_end_);
  if (config_.positions == EncoderConfig::Positions::absolute)
    frames = frames + absolute_positions(frames.size(1), frames.size(2), frames.options());
  return {frames, lengths};
}

Encoded ReferenceEncoder::reduce(const Encoded& encoded) const {
  const auto [frames, lengths] = (*reduction_)(encoded.frames, encoded.lengths);
  return {frames, lengths};
}

FrameMasks ReferenceEncoder::masks_of(const Encoded& encoded) const {
  const at::Tensor key_mask = frame_mask(encoded.lengths, encoded.frames.size(1));
  return {key_mask,
          key_mask.unsqueeze(-1).to(encoded.frames.scalar_type()),
          {},
          positions(encoded.frames)};
}

/// Returns the positions for attention, undefined where they are part of the frames.
at::Tensor ReferenceEncoder::positions(const at::Tensor& frames) const {
  const int64_t count = frames.size(1);
  switch (config_.positions) {
    case EncoderConfig::Positions::relative:
      return relative_positions(count, config_.width, frames.options());
    case EncoderConfig::Positions::local:
      return local_positions(count, config_.width, config_.left_context, config_.right_context,
                             frames.options());
    case EncoderConfig::Positions::absolute:
      break;
  }
  return {};
}

at::Tensor ReferenceEncoder::norm_mask(const at::Tensor& feature_lengths, int64_t frames) const {
  const at::Tensor lengths = std::visit(
      [&](const auto& f) { return f.subsampled(feature_lengths + silence_); }, front_end_);
  return frame_mask(lengths, frames).unsqueeze(1).to(at::kFloat);
}

int64_t ReferenceEncoder::rows(int64_t utterances, int64_t feature_frames,
                               const std::vector<int64_t>& /*host_lengths*/) const {
  return utterances * std::max<int64_t>(1, config_.subsampled(feature_frames));
}

at::Tensor ReferenceEncoder::mapped(const at::Tensor& frames) const {
  return out_weight_.defined() ? at::linear(frames, out_weight_, out_bias_) : frames;
}

Encoded ReferenceEncoder::operator()(const Features& features) const {
  Encoded encoded = subsample(features);
  FrameMasks masks = masks_of(encoded);
  if (silence_ > 0) masks.norm_mask = norm_mask(features.lengths, encoded.frames.size(1));
  for (size_t i = 0; i < layers_.size(); ++i) {
    check_stop();
    encoded.frames = layers_[i](encoded.frames, masks);
    if (!reduction_ || config_.reduction_position != static_cast<int64_t>(i)) continue;
    encoded = reduce(encoded);
    masks = masks_of(encoded);
  }
  encoded.frames = mapped(encoded.frames);
  if (reduction_ && config_.reduction_position < 0) encoded = reduce(encoded);
  if (silence_ > 0) {
    const int64_t frames = config_.subsampled(features.values.size(2));
    encoded.frames = encoded.frames.narrow(1, 0, std::max<int64_t>(1, frames));
  }
  return encoded;
}

}  // namespace rtfx
