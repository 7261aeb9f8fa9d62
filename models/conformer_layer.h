// One layer of the encoder: feed-forward, attention, convolution, feed-forward, norm.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/attention.h"
#include "models/weight_reader.h"

namespace rtfx {

struct LayerNorm {
  LayerNorm(const WeightReader& layer, const std::string& name);
  at::Tensor operator()(const at::Tensor& x) const;

  at::Tensor weight, bias;
};

/// Linear, SiLU, linear.
struct FeedForward {
  explicit FeedForward(const WeightReader& reader);
  at::Tensor operator()(const at::Tensor& x) const;

  at::Tensor weight1, bias1, weight2, bias2;
};

/// Pointwise, GLU, depthwise with batch norm folded into it (in float32), SiLU, pointwise.
struct ConvolutionModule {
  explicit ConvolutionModule(const WeightReader& reader);
  /// x [B, T', d]; mask [B, T', 1] in x's dtype zeroes the padding that the kernel could reach.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;

  at::Tensor pointwise1, bias1, depthwise, depthwise_bias, pointwise2, bias2;
};

struct ConformerLayer {
  ConformerLayer(const EncoderConfig& config, const WeightReader& reader);
  /// As Attention takes x, key_mask and positions; mask as ConvolutionModule does.
  at::Tensor operator()(at::Tensor x, const at::Tensor& key_mask, const at::Tensor& mask,
                        const at::Tensor& positions) const;

  LayerNorm norm_feed_forward1, norm_attention, norm_convolution, norm_feed_forward2, norm_out;
  FeedForward feed_forward1, feed_forward2;
  Attention attention;
  ConvolutionModule convolution;
};

}  // namespace rtfx
