// One layer of the encoder: feed-forward, attention, convolution, feed-forward, norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "models/checkpoint/checkpoint.h"
#include "models/encoder/attention.h"
#include "models/encoder/convolution.h"

namespace rtfx {

struct LayerNorm {
  LayerNorm(const WeightReader& layer, const std::string& name);
  at::Tensor operator()(const at::Tensor& x) const;

  at::Tensor weight, bias;
};

/// A linear map, SiLU and a second linear map.
struct FeedForward {
  explicit FeedForward(const WeightReader& reader);
  at::Tensor operator()(const at::Tensor& x) const;

  at::Tensor weight1, bias1, weight2, bias2;
};

/// The masks of a batch, which all layers share.
struct FrameMasks {
  at::Tensor key_mask;   // [B, T'] bool: frames of the utterance
  at::Tensor mask;       // [B, T', 1]: key_mask in the dtype of the frames
  at::Tensor norm_mask;  // argument of ConvolutionNorm
  at::Tensor positions;  // argument of Attention
};

/// A pointwise convolution, GLU, a depthwise convolution, norm, SiLU and a pointwise convolution.
/// Batch norm is folded into the depthwise convolution (in float32).
struct ConvolutionModule {
  ConvolutionModule(const EncoderConfig& config, const WeightReader& reader);
  /// Maps x [B, T', d] to the same shape. masks.mask zeroes the padding that the kernel could
  /// reach.
  at::Tensor operator()(const at::Tensor& x, const FrameMasks& masks) const;
  /// Convolves the next frames of longer rows. The kernel reaches back only. `past` [B, d, left]
  /// holds the input of the kernel from earlier frames, zeros at a row's begin. Afterwards it holds
  /// the input for the next call.
  at::Tensor forward_step(const at::Tensor& x, at::Tensor& past, const FrameMasks& masks) const;

  at::Tensor pointwise1, bias1, depthwise, depthwise_bias, pointwise2, bias2;
  int64_t left, right;  // frames that the kernel reaches to each side
  std::unique_ptr<const ConvolutionNorm> norm;

 private:
  at::Tensor gated(const at::Tensor& x, const FrameMasks& masks) const;  // [B, d, T']
  at::Tensor mixed(const at::Tensor& gated, int64_t padding, const FrameMasks& masks) const;
};

/// The state that a layer keeps of earlier frames.
struct LayerPast {
  Attention::Past attention;
  at::Tensor convolution;    // `past` of ConvolutionModule::forward_step()
  at::Tensor position_keys;  // result of attention->position_keys(); stays as it is
};

struct ConformerLayer {
  ConformerLayer(const EncoderConfig& config, const WeightReader& reader);
  at::Tensor operator()(at::Tensor x, const FrameMasks& masks) const;
  /// Computes the next n frames of longer rows, [B, n, d]. masks.key_mask covers the earlier frames
  /// and these, masks.mask only these.
  at::Tensor forward_step(at::Tensor x, LayerPast& past, const FrameMasks& masks) const;

  LayerNorm norm_feed_forward1, norm_attention, norm_convolution, norm_feed_forward2, norm_out;
  FeedForward feed_forward1, feed_forward2;
  std::unique_ptr<const Attention> attention;
  ConvolutionModule convolution;

 private:
  template <typename Attend, typename Convolve>
  at::Tensor through(at::Tensor x, const Attend& attend, const Convolve& convolve) const;
};

}  // namespace rtfx
