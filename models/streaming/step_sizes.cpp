#include "models/streaming/step_sizes.h"

namespace rtfx {

StepSizes step_sizes(const EncoderConfig& encoder) {
  // One frame of the front end at first, then as many as make an encoder frame.
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

}  // namespace rtfx
