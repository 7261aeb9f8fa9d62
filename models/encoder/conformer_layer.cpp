#include "models/encoder/conformer_layer.h"

#include <ATen/ATen.h>

#include "models/encoder/depthwise.h"
#include "models/encoder/make_attention.h"

namespace rtfx {

LayerNorm::LayerNorm(const WeightReader& layer, const std::string& name)
    : weight(layer.get(name + ".weight")), bias(layer.get(name + ".bias")) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, kNormEpsilon);
}

FeedForward::FeedForward(const WeightReader& reader)
    : weight1(reader.get("linear1.weight")),
      bias1(reader.optional("linear1.bias")),
      weight2(reader.get("linear2.weight")),
      bias2(reader.optional("linear2.bias")) {}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
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

at::Tensor ConvolutionModule::operator()(const at::Tensor& x, const FrameMasks& masks) const {
  at::Tensor gated = (at::glu(at::linear(x, pointwise1, bias1), -1) * masks.mask).transpose(1, 2);
  if (left != right) gated = at::constant_pad_nd(gated, {left, right});
  at::Tensor mixed = at::conv1d(gated, depthwise, depthwise_bias, 1, left == right ? left : 0, 1,
                                depthwise.size(0));
  if (norm != nullptr) mixed = (*norm)(mixed, masks.norm_mask);
  return at::linear(at::silu(mixed).transpose(1, 2), pointwise2, bias2);
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

at::Tensor ConformerLayer::operator()(at::Tensor x, const FrameMasks& masks) const {
  x = at::add(x, feed_forward1(norm_feed_forward1(x)), 0.5);
  x = x + (*attention)(norm_attention(x), masks.key_mask, masks.positions);
  x = x + convolution(norm_convolution(x), masks);
  x = at::add(x, feed_forward2(norm_feed_forward2(x)), 0.5);
  return norm_out(x);
}

}  // namespace rtfx
