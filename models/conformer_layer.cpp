#include "models/conformer_layer.h"

#include <ATen/ATen.h>

namespace rtfx {
namespace {

constexpr double kEpsilon = 1e-5;  // of layer norm and batch norm

}  // namespace

LayerNorm::LayerNorm(const WeightReader& layer, const std::string& name)
    : weight(layer.get(name + ".weight")), bias(layer.get(name + ".bias")) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, kEpsilon);
}

FeedForward::FeedForward(const WeightReader& reader)
    : weight1(reader.get("linear1.weight")),
      bias1(reader.optional("linear1.bias")),
      weight2(reader.get("linear2.weight")),
      bias2(reader.optional("linear2.bias")) {}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  return at::linear(at::silu(at::linear(x, weight1, bias1)), weight2, bias2);
}

ConvolutionModule::ConvolutionModule(const WeightReader& reader)
    : pointwise1(reader.get("pointwise_conv1.weight").squeeze(-1)),
      bias1(reader.optional("pointwise_conv1.bias")),
      pointwise2(reader.get("pointwise_conv2.weight").squeeze(-1)),
      bias2(reader.optional("pointwise_conv2.bias")) {
  const WeightReader norm = reader.below("batch_norm");
  const at::Tensor scale = norm.raw("weight") / (norm.raw("running_var") + kEpsilon).sqrt();
  depthwise = reader.place(reader.raw("depthwise_conv.weight") * scale.view({-1, 1, 1}));
  const at::Tensor bias = reader.raw("depthwise_conv.bias");
  const at::Tensor centred =
      bias.defined() ? bias - norm.raw("running_mean") : -norm.raw("running_mean");
  depthwise_bias = reader.place(centred * scale + norm.raw("bias"));
}

at::Tensor ConvolutionModule::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const at::Tensor gated = at::glu(at::linear(x, pointwise1, bias1), -1) * mask;
  const int64_t padding = (depthwise.size(2) - 1) / 2;
  const at::Tensor mixed = at::conv1d(gated.transpose(1, 2), depthwise, depthwise_bias, 1, padding,
                                      1, depthwise.size(0));
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
      attention(config, reader.below("self_attn")),
      convolution(reader.below("conv")) {}

at::Tensor ConformerLayer::operator()(at::Tensor x, const at::Tensor& key_mask,
                                      const at::Tensor& mask, const at::Tensor& positions) const {
  x = at::add(x, feed_forward1(norm_feed_forward1(x)), 0.5);
  x = x + attention(norm_attention(x), key_mask, positions);
  x = x + convolution(norm_convolution(x), mask);
  x = at::add(x, feed_forward2(norm_feed_forward2(x)), 0.5);
  return norm_out(x);
}

}  // namespace rtfx
