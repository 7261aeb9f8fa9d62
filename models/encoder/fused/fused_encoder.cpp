#include "models/encoder/fused/fused_encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/attention.h"

namespace rtfx {

StreamRings::StreamRings(const EncoderConfig& config, int64_t streams, int64_t frames,
                         const at::TensorOptions& options)
    : keys_values(at::zeros(
          {config.layers, streams, config.left_context + frames, 2 * config.width}, options)),
      gated(at::zeros({config.layers, streams, config.conv_kernel - 1 + frames, config.width},
                      options)),
      frames(frames) {}

LayerRings StreamRings::layer(int64_t index, const at::Tensor& slots,
                              const at::Tensor& encoded) const {
  const at::Tensor attention = keys_values[index], convolution = gated[index];
  return {attention.mutable_data_ptr(),
          convolution.mutable_data_ptr(),
          data_of<int64_t>(slots),
          data_of<int64_t>(encoded),
          static_cast<int32_t>(attention.size(1) - frames),
          static_cast<int32_t>(convolution.size(1) - frames),
          static_cast<int32_t>(frames)};
}

std::string FusedEncoder::missing(const EncoderConfig& config) {
  using Norm = EncoderConfig::ConvolutionNorm;
  if (config.positions == EncoderConfig::Positions::absolute) return "absolute positions";
  if (config.global_tokens > 0) return "global tokens";
  if (config.reduction != EncoderConfig::Reduction::none) return "reduction of frames";
  if (config.conv_norm == Norm::group || config.conv_norm == Norm::instance)
    return "norms over time in the convolution";
  if (config.width % 16 != 0 || config.width > kWidestNorm)
    return fmt::format("frames {} wide, only multiples of 16 up to {}", config.width, kWidestNorm);
  if (config.width % config.heads != 0 || config.width / config.heads > kWidestHead ||
      config.width / config.heads % 4 != 0)
    return fmt::format("{} heads in a width of {}, only heads of multiples of 4 up to {}",
                       config.heads, config.width, kWidestHead);
  return {};
}

FusedEncoder::FusedEncoder(const EncoderConfig& config, int64_t mel_bins,
                           const WeightReader& reader, bool eight_bits)
    : config_(config),
      front_end_(config, mel_bins, reader),
      dtype_(reader.dtype()),
      eight_bits_(eight_bits) {
  if (const int64_t width = config.feed_forward_expansion * config.width;
      eight_bits && width > kWidestScaledRow) {
    throw UserError("dtype fp8",
                    fmt::format("feed-forward layers {} wide, at most {}", width, kWidestScaledRow),
                    "use bf16");
  }
  for (int64_t i = 0; i < config.layers; ++i)
    layers_.emplace_back(config, reader.below(fmt::format("layers.{}", i)), eight_bits);
  if (reader.optional("out_proj.weight").defined()) {
    out_.emplace(reader.raw("out_proj.weight"), reader.raw("out_proj.bias"), reader.device(),
                 reader.dtype(), false);
  }
}

int64_t FusedEncoder::rows(int64_t utterances, int64_t feature_frames,
                           const std::vector<int64_t>& host_lengths) const {
  return row_count(config_, utterances, feature_frames, host_lengths);
}

Encoded FusedEncoder::operator()(const Features& features) const {
  const int64_t least =
      rows(features.values.size(0), features.values.size(2), features.host_lengths);
  RTFX_CHECK(features.packed_rows == 0 || features.packed_rows >= least, "too few packed rows");
  const auto [frames, batch] = front_end_(features, std::max(least, features.packed_rows));
  return {through_layers(frames, batch, {}), batch.encoded_lengths};
}

at::Tensor FusedEncoder::forward_step(const Chunks& chunks, const StreamRings& rings) const {
  const auto [frames, lengths] = front_end_.part(chunks.features, chunks.begin, chunks.end);
  const at::Tensor wanted =
      frames.narrow(1, chunks.dropped, rings.frames).contiguous().flatten(0, 1);
  const BatchRows batch =
      plan_rows((lengths - chunks.dropped).clamp_min_(0), 0, false, wanted.size(0), rings.frames);
  std::vector<LayerRings> of_layers;
  for (int64_t i = 0; i < config_.layers; ++i)
    of_layers.push_back(rings.layer(i, chunks.slots, chunks.encoded));
  return through_layers(wanted, batch, of_layers);
}

at::Tensor FusedEncoder::through_layers(const at::Tensor& frames, const BatchRows& batch,
                                        const std::vector<LayerRings>& rings) const {
  LayerMemory memory(config_, frames, eight_bits_);
  at::Tensor positions;
  if (batch.frames > kReadyPositions)
    positions = positions_for(config_, batch.frames, frames.options());
  layers_.front().begin(frames, memory);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i](frames, memory, batch, positions, rings.empty() ? nullptr : &rings[i]);
    if (i + 1 < layers_.size()) layers_[i].end(frames, memory, layers_[i + 1]);
  }
  at::Tensor padded = layers_.back().end(frames, memory, batch);
  if (out_) {
    at::Tensor mapped =
        at::empty({padded.size(0), padded.size(1), out_->width()}, padded.options());
    (*out_)({padded.flatten(0, 1), {}}, mapped.flatten(0, 1));
    padded = mapped;
  }
  return padded;
}

}  // namespace rtfx
