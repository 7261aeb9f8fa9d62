#include "models/encoder/conformer_layer.h"

#include <ATen/ATen.h>

#include "base/nvtx.h"
#include "models/encoder/attention.h"
#include "models/encoder/convolution.h"
#include "models/encoder/epsilons.h"

namespace rtfx {

LayerNorm::LayerNorm(const WeightReader& layer, const std::string& name)
    : weight(layer.get(name + ".weight")), bias(layer.get(name + ".bias")) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  const ScopedRange range(RangeName::encoder_norm);
  return at::layer_norm(x, weight.sizes(), weight, bias, kNormEpsilon);
}

FeedForward::FeedForward(const WeightReader& reader)
    : weight1(reader.get("linear1.weight")),
      bias1(reader.optional("linear1.bias")),
      weight2(reader.get("linear2.weight")),
      bias2(reader.optional("linear2.bias")) {}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  const ScopedRange range(RangeName::encoder_feed_forward);
  return at::linear(at::silu(at::linear(x, weight1, bias1)), weight2, bias2);
}

ConvolutionModule::ConvolutionModule(const EncoderConfig& config, const WeightReader& reader)
    : pointwise1(reader.get("pointwise_conv1.weight").squeeze(-1)),
      bias1(reader.optional("pointwise_conv1.bias")),
      pointwise2(reader.get("pointwise_conv2.weight").squeeze(-1)),
      bias2(reader.optional("pointwise_conv2.bias")),
      norm(make_convolution_norm(config, reader.below("batch_norm"))) {
  const Depthwise folded(config, reader);
  depthwise = reader.place(folded.weight);
  if (folded.bias.defined()) depthwise_bias = reader.place(folded.bias);
  left = folded.left;
  right = folded.right;
}

at::Tensor ConvolutionModule::gated(const at::Tensor& x, const FrameMasks& masks) const {
  return (at::glu(at::linear(x, pointwise1, bias1), -1) * masks.mask).transpose(1, 2);
}

at::Tensor ConvolutionModule::mixed(const at::Tensor& gated, int64_t padding,
                                    const FrameMasks& masks) const {
  at::Tensor y = at::conv1d(gated, depthwise, depthwise_bias, 1, padding, 1, depthwise.size(0));
  if (norm != nullptr) y = (*norm)(y, masks.norm_mask);
  return at::linear(at::silu(y).transpose(1, 2), pointwise2, bias2);
}

at::Tensor ConvolutionModule::operator()(const at::Tensor& x, const FrameMasks& masks) const {
  if (left == right) return mixed(gated(x, masks), left, masks);
  return mixed(at::constant_pad_nd(gated(x, masks), {left, right}), 0, masks);
}

at::Tensor ConvolutionModule::forward_step(const at::Tensor& x, at::Tensor& past,
                                           const FrameMasks& masks) const {
  const at::Tensor all = at::cat({past, gated(x, masks)}, 2);
  past = all.narrow(2, x.size(1), past.size(2));
  return mixed(all, 0, masks);
}

ConformerLayer::ConformerLayer(const EncoderConfig& config, const WeightReader& reader)
    : norm_feed_forward1(reader, "norm_feed_forward1"),
      norm_attention(reader, "norm_self_att"),
      norm_convolution(reader, "norm_conv"),
      norm_feed_forward2(reader, "norm_feed_forward2"),
      norm_out(reader, "norm_out"),
      feed_forward1(reader.below("feed_forward1")),
      feed_forward2(reader.below("feed_forward2")),
      attention(make_attention(config, reader.below("self_attn"))),
      convolution(config, reader.below("conv")) {}

template <typename Attend, typename Convolve>
at::Tensor ConformerLayer::through(at::Tensor x, const Attend& attend,
                                   const Convolve& convolve) const {
  x = at::add(x, feed_forward1(norm_feed_forward1(x)), 0.5);
  at::Tensor normed = norm_attention(x);
  {
    const ScopedRange range(RangeName::encoder_attention);
    x = x + attend(normed);
  }
  normed = norm_convolution(x);
  {
    const ScopedRange range(RangeName::encoder_convolution);
    x = x + convolve(normed);
  }
  x = at::add(x, feed_forward2(norm_feed_forward2(x)), 0.5);
  return norm_out(x);
}

at::Tensor ConformerLayer::operator()(at::Tensor x, const FrameMasks& masks) const {
  return through(
      std::move(x),
      [&](const at::Tensor& y) { return (*attention)(y, masks.key_mask, masks.positions); },
      [&](const at::Tensor& y) { return convolution(y, masks); });
}

at::Tensor ConformerLayer::forward_step(at::Tensor x, LayerPast& past,
                                        const FrameMasks& masks) const {
  return through(
      std::move(x),
      [&](const at::Tensor& y) {
        return attention->forward_step(y, past.attention, masks.key_mask, past.position_keys);
      },
      [&](const at::Tensor& y) { return convolution.forward_step(y, past.convolution, masks); });
}

}  // namespace rtfx
