#include "models/encoder/encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "models/encoder/conformer_layer.h"
#include "models/encoder/reduction.h"
#include "models/encoder/subsampling.h"

namespace rtfx {

struct Encoder::Implementation {
  Implementation(const EncoderConfig& of, int64_t mel_bins, const WeightReader& reader)
      : config(of),
        silence(norms_over_time(of)
                    ? of.front_end == EncoderConfig::FrontEnd::stacking ? of.subsampling_factor : 1
                    : 0),
        front_end(make_front_end(of, mel_bins, reader)),
        out_weight(reader.optional("out_proj.weight")),
        out_bias(reader.optional("out_proj.bias")) {
    for (int64_t i = 0; i < of.layers; ++i)
      layers.emplace_back(of, reader.below(fmt::format("layers.{}", i)));
    if (of.reduction != EncoderConfig::Reduction::none) reduction.emplace(of, reader);
  }

  Encoded subsample(const Features& features) const;
  Encoded reduce(const Encoded& encoded) const;
  FrameMasks masks(const Encoded& encoded) const;
  at::Tensor positions(const at::Tensor& frames) const;
  at::Tensor norm_mask(const at::Tensor& feature_lengths, int64_t frames) const;

  EncoderConfig config;
  /// Feature frames behind a row's end that count in norms over time: there, NeMo's tensor holds
  /// that of the last window, or what fills a stack. They are no frames of the utterance.
  int64_t silence;
  FrontEnd front_end;
  std::vector<ConformerLayer> layers;
  std::optional<Reduction> reduction;
  at::Tensor out_weight, out_bias;
};

Encoded Encoder::Implementation::subsample(const Features& features) const {
  Features input = features;
  if (silence > 0) input.values = at::constant_pad_nd(input.values, {0, silence});
  auto [frames, lengths] = std::visit([&](const auto& f) { return f(input); }, front_end);
  if (config.positions == EncoderConfig::Positions::absolute)
    frames = frames + absolute_positions(frames.size(1), frames.size(2), frames.options());
  return {frames, lengths};
}

Encoded Encoder::Implementation::reduce(const Encoded& encoded) const {
  const auto [frames, lengths] = (*reduction)(encoded.frames, encoded.lengths);
  return {frames, lengths};
}

FrameMasks Encoder::Implementation::masks(const Encoded& encoded) const {
  const at::Tensor key_mask = frame_mask(encoded.lengths, encoded.frames.size(1));
  return {key_mask,
          key_mask.unsqueeze(-1).to(encoded.frames.scalar_type()),
          {},
          positions(encoded.frames)};
}

/// Undefined where they are in the frames themselves.
at::Tensor Encoder::Implementation::positions(const at::Tensor& frames) const {
  const int64_t count = frames.size(1);
  switch (config.positions) {
    case EncoderConfig::Positions::relative:
      return relative_positions(count, config.width, frames.options());
    case EncoderConfig::Positions::local:
      return local_positions(count, config.width, config.left_context, config.right_context,
                             frames.options());
    case EncoderConfig::Positions::absolute:
      break;
  }
  return {};
}

at::Tensor Encoder::Implementation::norm_mask(const at::Tensor& feature_lengths,
                                              int64_t frames) const {
  const at::Tensor lengths =
      std::visit([&](const auto& f) { return f.subsampled(feature_lengths + silence); }, front_end);
  return frame_mask(lengths, frames).unsqueeze(1).to(at::kFloat);
}

Encoder::Encoder(const EncoderConfig& config, int64_t mel_bins, const StateDict& weights,
                 at::Device device, at::ScalarType dtype)
    : implementation_(std::make_unique<Implementation>(
          config, mel_bins, WeightReader(weights, "encoder.", device, dtype))) {}

Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

Encoded Encoder::operator()(const Features& features) const {
  const Implementation& all = *implementation_;
  Encoded encoded = all.subsample(features);
  FrameMasks masks = all.masks(encoded);
  if (all.silence > 0) masks.norm_mask = all.norm_mask(features.lengths, encoded.frames.size(1));
  for (size_t i = 0; i < all.layers.size(); ++i) {
    encoded.frames = all.layers[i](encoded.frames, masks);
    if (!all.reduction || all.config.reduction_position != static_cast<int64_t>(i)) continue;
    encoded = all.reduce(encoded);
    masks = all.masks(encoded);
  }
  if (all.out_weight.defined())
    encoded.frames = at::linear(encoded.frames, all.out_weight, all.out_bias);
  if (all.reduction && all.config.reduction_position < 0) encoded = all.reduce(encoded);
  if (all.silence > 0) {
    const int64_t frames = all.config.subsampled(features.values.size(2));
    encoded.frames = encoded.frames.narrow(1, 0, std::max<int64_t>(1, frames));
  }
  return encoded;
}

}  // namespace rtfx
