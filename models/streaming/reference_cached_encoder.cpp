#include "models/streaming/reference_cached_encoder.h"

#include <ATen/ATen.h>

namespace rtfx {

ReferenceCachedEncoder::ReferenceCachedEncoder(std::shared_ptr<const AcousticModel> model,
                                               const EncoderConfig& context, int64_t slots)
    : CachedEncoder(std::move(model), context, slots), encoder_(model_->encoder->by_operators()) {
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

at::Tensor ReferenceCachedEncoder::operator()(const CachedStep& step) {
  const at::Tensor begin = step.rows[0], end = step.rows[1], slots = step.rows[3];
  const int64_t before = sizes_.last_channel_cache_size;
  const at::Tensor known = step.rows[2].clamp_max(before);

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

}  // namespace rtfx
