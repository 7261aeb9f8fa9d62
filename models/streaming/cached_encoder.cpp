#include "models/streaming/cached_encoder.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace rtfx {
namespace {

const ReferenceEncoder* encoder_of(const AcousticModel& model, const EncoderConfig& context) {
  ModelConfig config = model.config;
  config.encoder = context;
  const std::string reason = why_not_cache_aware(config);
  if (!reason.empty())
    throw UserError("cache-aware streams", "the model cannot be streamed by caches: " + reason,
                    "use buffered streams, or a cache-aware model (chunked_limited)");
  const ReferenceEncoder* encoder = model.encoder->by_operators();
  if (encoder == nullptr)
    throw UserError("cache-aware streams", "the fused encoder keeps no caches",
                    "use encoder: reference");
  return encoder;
}

at::Tensor caches(at::IntArrayRef sizes, const AcousticModel& model, at::ScalarType dtype) {
  return at::zeros(sizes, at::TensorOptions(dtype).device(model.device));
}

}  // namespace

CachedEncoder::CachedEncoder(std::shared_ptr<const AcousticModel> model,
                             const EncoderConfig& context, int64_t slots)
    : model_(std::move(model)),
      encoder_(encoder_of(*model_, context)),
      config_(context),
      sizes_(step_sizes(context)) {
  const int64_t layers = config_.layers, before = sizes_.last_channel_cache_size;
  mel_ = caches({slots + 1, model_->config.features.mel_bins, sizes_.pre_encode_cache_size[1]},
                *model_, at::kFloat);
  attention_ = caches({slots + 1, layers, 2, config_.heads, before, config_.width / config_.heads},
                      *model_, model_->encoder_dtype);
  convolution_ = caches({slots + 1, layers, config_.width, sizes_.last_time_cache_size}, *model_,
                        model_->encoder_dtype);
  for (const ConformerLayer& layer : encoder_->layers())
    position_keys_.push_back(layer.attention->position_keys(config_, before, config_.chunk));
}

void CachedEncoder::clear(int64_t slot) {
  for (at::Tensor* cache : {&mel_, &attention_, &convolution_}) cache->select(0, slot).zero_();
}

int64_t CachedEncoder::valid_frames(int64_t end) const {
  return std::max<int64_t>(0, config_.subsampled(end) - sizes_.drop_extra_pre_encoded);
}

at::Tensor CachedEncoder::operator()(const CachedStep& step) {
  const at::Tensor begin = step.rows[0], end = step.rows[1], known = step.rows[2];
  const at::Tensor slots = step.rows[3];

  const at::Tensor window = at::cat({mel_.index_select(0, slots), step.features}, 2);
  mel_.index_copy_(0, slots, window.narrow(2, step.features.size(2), mel_.size(2)));
  const Subsampling& front_end = *encoder_->convolutions();
  at::Tensor x = front_end.part(window, begin, end)
                     .narrow(1, sizes_.drop_extra_pre_encoded, sizes_.valid_out_len);

  const at::Tensor valid =
      frame_mask(front_end.subsampled(end) - sizes_.drop_extra_pre_encoded, x.size(1));
  // The cache is filled from its end.
  const at::Tensor cached =
      frame_mask(sizes_.last_channel_cache_size - known, sizes_.last_channel_cache_size)
          .logical_not();
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
    x = encoder_->layers()[i].continued(x, past, masks);
    keys_values.push_back(at::stack({past.attention.keys, past.attention.values}, 1));
    kernels.push_back(past.convolution);
  }
  attention_.index_copy_(0, slots, at::stack(keys_values, 1));
  convolution_.index_copy_(0, slots, at::stack(kernels, 1));
  return encoder_->mapped(x);
}

}  // namespace rtfx
