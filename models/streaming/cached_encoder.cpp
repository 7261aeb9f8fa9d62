#include "models/streaming/cached_encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "models/encoder/fused/fused_encoder.h"
#include "models/encoder/reference_encoder.h"

namespace rtfx {

StepSizes step_sizes(const EncoderConfig& encoder) {
  // The first step gets one frame of the front end, and later ones get as many as make an encoder
  // frame.
  const int64_t factor = encoder.subsampling_factor, look_ahead = encoder.chunk - 1;
  StepSizes sizes{};
  sizes.chunk_size = {1 + factor * look_ahead, factor + factor * look_ahead};
  sizes.shift_size = sizes.chunk_size;
  sizes.valid_out_len = (sizes.shift_size[1] - factor) / factor + 1;
  sizes.pre_encode_cache_size = {0, factor + 1};
  sizes.drop_extra_pre_encoded = 1 + (sizes.pre_encode_cache_size[1] - 1) / factor;
  sizes.last_channel_cache_size = encoder.left_context;
  sizes.last_time_cache_size = encoder.conv_kernel - 1;
  return sizes;
}

std::string why_not_cache_aware(const ModelConfig& model) {
  using Normalization = FeatureConfig::Normalization;
  using Norm = EncoderConfig::ConvolutionNorm;
  using Style = EncoderConfig::ContextStyle;
  const EncoderConfig& e = model.encoder;
  if (e.positions != EncoderConfig::Positions::relative)
    return "its attention is not one of relative positions";
  if (e.context_style == Style::chunked_with_right ||
      (e.context_style == Style::regular && e.right_context != 0) || e.right_context < 0)
    return "its attention sees frames behind a chunk";
  if (e.left_context < 0 || e.context[0] < 0) return "its attention sees all frames to the left";
  if (e.front_end != EncoderConfig::FrontEnd::convolution || !e.causal_downsampling)
    return "its sub-sampling is not causal (causal_downsampling)";
  if (e.conv_right_context != 0) return "its convolutions are not causal (conv_context_size)";
  if (e.conv_norm == Norm::group || e.conv_norm == Norm::instance)
    return "its convolutions have a norm over time";
  if (e.reduction != EncoderConfig::Reduction::none) return "it reduces frames between layers";
  const Normalization kind = model.features.normalization;
  if (kind != Normalization::none && kind != Normalization::fixed)
    return "its features are normalised over the whole utterance";
  return {};
}

CachedEncoder::CachedEncoder(std::shared_ptr<const AcousticModel> model,
                             const EncoderConfig& context, int64_t slots)
    : model_(std::move(model)),
      config_(context),
      sizes_(step_sizes(context)),
      mel_(at::zeros({slots + 1, model_->config.features.mel_bins, sizes_.pre_encode_cache_size[1]},
                     at::TensorOptions(model_->device).dtype(at::kFloat))) {}

int64_t CachedEncoder::valid_frames(int64_t end) const {
  return std::max<int64_t>(0, config_.subsampled(end) - sizes_.drop_extra_pre_encoded);
}

at::Tensor CachedEncoder::next_window(const CachedStep& step) {
  const at::Tensor slots = step.control[CachedStep::kSlot];
  const at::Tensor window = at::cat({mel_.index_select(0, slots), step.features}, 2);
  mel_.index_copy_(0, slots, window.narrow(2, step.features.size(2), mel_.size(2)));
  return window;
}

namespace {

/// Computes a step by LibTorch's operators.
class ReferenceCachedEncoder : public CachedEncoder {
 public:
  /// Takes the arguments of make_cached_encoder(). The model's encoder must not be fused.
  ReferenceCachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                         int64_t slots);

  void clear(int64_t slot) override;

 private:
  at::Tensor forward(const CachedStep& step) override;

  const ReferenceEncoder* encoder_;
  std::vector<at::Tensor> position_keys_;  // one for each layer
  at::Tensor attention_;                   // [slots + 1, layers, 2, H, last_channel, dk]
  at::Tensor convolution_;                 // [slots + 1, layers, d, last_time]
};

ReferenceCachedEncoder::ReferenceCachedEncoder(std::shared_ptr<const AcousticModel> model,
                                               const EncoderConfig& context, int64_t slots)
    : CachedEncoder(std::move(model), context, slots),
      encoder_(model_->encoder->reference_encoder()) {
  const int64_t layers = config_.layers, before = sizes_.last_channel_cache_size;
  const auto options = at::TensorOptions(model_->device).dtype(model_->encoder_dtype);
  attention_ = at::zeros(
      {slots + 1, layers, 2, config_.heads, before, config_.width / config_.heads}, options);
  convolution_ =
      at::zeros({slots + 1, layers, config_.width, sizes_.last_time_cache_size}, options);
  for (const ConformerLayer& layer : encoder_->layers())
    position_keys_.push_back(layer.attention->position_keys(config_, before, config_.chunk));
}

void ReferenceCachedEncoder::clear(int64_t slot) {
  CachedEncoder::clear(slot);
  attention_.select(0, slot).zero_();
  convolution_.select(0, slot).zero_();
}

at::Tensor ReferenceCachedEncoder::forward(const CachedStep& step) {
  const at::Tensor begin = step.control[CachedStep::kBegin];
  const at::Tensor end = step.control[CachedStep::kEnd];
  const at::Tensor slots = step.control[CachedStep::kSlot];
  const int64_t before = sizes_.last_channel_cache_size;
  const at::Tensor known = step.control[CachedStep::kEncoded].clamp_max(before);

  const Subsampling& front_end = *encoder_->convolutions();
  at::Tensor x = front_end.part(next_window(step), begin, end)
                     .narrow(1, sizes_.drop_extra_pre_encoded, sizes_.valid_out_len);

  const at::Tensor valid =
      frame_mask(front_end.subsampled(end) - sizes_.drop_extra_pre_encoded, x.size(1));
  // The cache is filled from its end.
  const at::Tensor cached = frame_mask(before - known, before).logical_not();
  const FrameMasks masks{
      at::cat({cached, valid}, 1), valid.unsqueeze(-1).to(x.scalar_type()), {}, {}};

  const at::Tensor attention = attention_.index_select(0, slots);
  const at::Tensor convolution = convolution_.index_select(0, slots);
  std::vector<at::Tensor> keys_values, kernels;
  for (size_t i = 0; i < encoder_->layers().size(); ++i) {
    const at::Tensor of_layer = attention.select(1, static_cast<int64_t>(i));
    LayerPast past{{of_layer.select(1, 0), of_layer.select(1, 1)},
                   convolution.select(1, static_cast<int64_t>(i)),
                   position_keys_[i]};
    x = encoder_->layers()[i].forward_step(x, past, masks);
    keys_values.push_back(at::stack({past.attention.keys, past.attention.values}, 1));
    kernels.push_back(past.convolution);
  }
  attention_.index_copy_(0, slots, at::stack(keys_values, 1));
  convolution_.index_copy_(0, slots, at::stack(kernels, 1));
  return encoder_->mapped(x);
}

/// Computes the same as ReferenceCachedEncoder, with other roundings. Keys, values and the inputs
/// of convolutions are kept in rings, so that a step moves no frame of an earlier one.
class FusedCachedEncoder : public CachedEncoder {
 public:
  /// Takes the arguments of make_cached_encoder(). The model's encoder must be fused.
  FusedCachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                     int64_t slots);

 private:
  at::Tensor forward(const CachedStep& step) override;

  const FusedEncoder* encoder_;
  StreamRings rings_;
};

const FusedEncoder* encoder_of(const AcousticModel& model, int64_t attended) {
  if (attended > FusedEncoder::kMostAttended)
    throw UserError("cache-aware streams",
                    fmt::format("attention sees {} frames, with those of a step, and the fused "
                                "encoder at most {}",
                                attended, FusedEncoder::kMostAttended),
                    "use a smaller att_context_size, or encoder: reference, which has no fp8");
  return model.encoder->fused_encoder();
}

FusedCachedEncoder::FusedCachedEncoder(std::shared_ptr<const AcousticModel> model,
                                       const EncoderConfig& context, int64_t slots)
    : CachedEncoder(std::move(model), context, slots),
      encoder_(encoder_of(*model_, sizes_.last_channel_cache_size + sizes_.valid_out_len)),
      rings_(config_, slots + 1, sizes_.valid_out_len,
             at::TensorOptions(model_->device).dtype(encoder_->dtype())) {}

at::Tensor FusedCachedEncoder::forward(const CachedStep& step) {
  const at::Tensor& control = step.control;
  return encoder_->forward_step(
      {next_window(step), control[CachedStep::kBegin], control[CachedStep::kEnd],
       sizes_.drop_extra_pre_encoded, control[CachedStep::kSlot], control[CachedStep::kEncoded]},
      rings_);
}

}  // namespace

std::unique_ptr<CachedEncoder> make_cached_encoder(std::shared_ptr<const AcousticModel> model,
                                                   const EncoderConfig& context, int64_t slots) {
  ModelConfig config = model->config;
  config.encoder = context;
  const std::string reason = why_not_cache_aware(config);
  if (!reason.empty())
    throw UserError("cache-aware streams", "the model cannot be streamed by caches: " + reason,
                    "use buffered streams, or a cache-aware model (chunked_limited)");
  if (model->encoder->is_fused())
    return std::make_unique<FusedCachedEncoder>(std::move(model), context, slots);
  return std::make_unique<ReferenceCachedEncoder>(std::move(model), context, slots);
}

}  // namespace rtfx
