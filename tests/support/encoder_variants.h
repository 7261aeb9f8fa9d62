// Variants of the small model, one for each kind of encoder that checkpoints have.
#pragma once

#include <functional>
#include <vector>

#include "models/checkpoint/config.h"

namespace rtfx::test {

using Change = std::function<void(ModelConfig&)>;

/// A variant's name, and the change that makes it from the small model.
struct Variant {
  const char* name;
  Change change;
};

inline Change context(EncoderConfig::ContextStyle style, std::vector<int64_t> sizes) {
  return [=](ModelConfig& config) {
    config.encoder.context_style = style;
    select_context(config, sizes, "test");
  };
}

inline Change local(std::vector<int64_t> sizes, int64_t tokens, bool separate) {
  return [=](ModelConfig& config) {
    config.encoder.positions = EncoderConfig::Positions::local;
    config.encoder.global_tokens = tokens;
    config.encoder.global_tokens_spacing = 3;
    config.encoder.global_attn_separate = separate;
    select_context(config, sizes, "test");
  };
}

inline Change norm(EncoderConfig::ConvolutionNorm kind, int64_t groups = 1) {
  return [=](ModelConfig& config) {
    config.encoder.conv_norm = kind;
    config.encoder.norm_groups = groups;
  };
}

inline Change front_end(bool depthwise, bool causal, int64_t factor) {
  return [=](ModelConfig& config) {
    config.encoder.depthwise_subsampling = depthwise;
    config.encoder.causal_downsampling = causal;
    config.encoder.subsampling_factor = factor;
  };
}

inline Change stacking(int64_t factor, bool normed) {
  return [=](ModelConfig& config) {
    config.encoder.front_end = EncoderConfig::FrontEnd::stacking;
    config.encoder.subsampling_factor = factor;
    config.encoder.stacking_norm = normed;
  };
}

inline Change reduction(EncoderConfig::Reduction kind, int64_t factor, int64_t position) {
  return [=](ModelConfig& config) {
    config.encoder.reduction = kind;
    config.encoder.reduction_factor = factor;
    config.encoder.reduction_position = position;
  };
}

/// Gives the model the encoder and features of a cache-aware model.
inline void streaming(ModelConfig& config) {
  front_end(true, true, 8)(config);
  norm(EncoderConfig::ConvolutionNorm::layer)(config);
  context(EncoderConfig::ContextStyle::chunked, {6, 2})(config);
  config.encoder.conv_right_context = 0;
  config.features.normalization = FeatureConfig::Normalization::none;
}

inline std::vector<Variant> variants() {
  using Style = EncoderConfig::ContextStyle;
  using Norm = EncoderConfig::ConvolutionNorm;
  using Reduction = EncoderConfig::Reduction;
  return {
      {"full", [](ModelConfig&) {}},
      {"limited", context(Style::regular, {4, 4})},
      {"left_only", context(Style::regular, {4, -1})},
      {"chunked", context(Style::chunked, {6, 2})},
      {"all_chunks_left", context(Style::chunked, {-1, 2})},
      {"chunked_with_right", context(Style::chunked_with_right, {3, 4, 2})},
      {"local", local({4, 2}, 0, false)},
      {"global", local({4, 4}, 3, false)},
      {"global_separate", local({2, 4}, 2, true)},
      {"absolute",
       [](ModelConfig& c) { c.encoder.positions = EncoderConfig::Positions::absolute; }},
      {"layer_norm", norm(Norm::layer)},
      {"group_norm", norm(Norm::group, 4)},
      {"instance_norm", norm(Norm::instance)},
      {"instance_norm_of_stacks",
       [](ModelConfig& config) {
         norm(Norm::instance)(config);
         stacking(4, false)(config);
       }},
      {"causal_convolution", [](ModelConfig& c) { c.encoder.conv_right_context = 0; }},
      {"causal_striding", front_end(false, true, 4)},
      {"streaming", streaming},
      {"stacking", stacking(4, true)},
      {"linear", stacking(1, false)},
      {"pooling", reduction(Reduction::pooling, 2, 0)},
      {"pooling_at_the_end", reduction(Reduction::pooling, 2, -1)},
      {"striding", reduction(Reduction::striding, 2, 0)},
      {"output_map", [](ModelConfig& c) { c.encoder.output_width = 24; }},
  };
}

}  // namespace rtfx::test
