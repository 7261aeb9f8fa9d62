#include "models/encoder/fused/fused_layer.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <utility>

#include "base/nvtx.h"
#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/attention.h"
#include "models/encoder/convolution.h"

namespace rtfx {
namespace {

Linear linear_of(const WeightReader& reader, const std::string& name, bool eight_bits,
                 double factor = 1) {
  const at::Tensor weight = reader.raw(name + ".weight");
  return {weight.view({weight.size(0), -1}),
          reader.raw(name + ".bias"),
          reader.device(),
          reader.dtype(),
          eight_bits,
          factor};
}

/// Makes one linear map that computes queries, keys and values.
Linear joined(const WeightReader& attention, bool eight_bits) {
  std::vector<at::Tensor> weights, biases;
  for (const char* name : {"linear_q", "linear_k", "linear_v"}) {
    weights.push_back(attention.raw(std::string(name) + ".weight"));
    biases.push_back(attention.raw(std::string(name) + ".bias"));
  }
  return {at::cat(weights), biases[0].defined() ? at::cat(biases) : at::Tensor(),
          attention.device(), attention.dtype(), eight_bits};
}

cudaStream_t stream_of(const at::Tensor& frames) {
  return c10::cuda::getCurrentCUDAStream(frames.device().index()).stream();
}

LinearInput product_input(int64_t rows, int64_t width, const at::TensorOptions& options,
                          bool eight_bits) {
  if (!eight_bits) return {at::empty({rows, width}, options), {}};
  return {at::empty({rows, width}, options.dtype(at::kFloat8_e4m3fn)),
          at::empty({rows}, options.dtype(at::kFloat))};
}

ProductInput pointers(const LinearInput& input) {
  return {input.values.mutable_data_ptr(),
          input.scales.defined() ? input.scales.mutable_data_ptr<float>() : nullptr};
}

/// Returns the first rows * width elements of `memory` as [rows, width].
at::Tensor part(const at::Tensor& memory, int64_t width) {
  return memory.flatten().narrow(0, 0, memory.size(0) * width).view({-1, width});
}

int32_t narrowed(int64_t extent) { return static_cast<int32_t>(extent); }

}  // namespace

LayerMemory::LayerMemory(const EncoderConfig& config, const at::Tensor& frames, bool eight_bits)
    : normed(product_input(frames.size(0), config.width, frames.options(), eight_bits)),
      wide(at::empty(
          {frames.size(0), std::max<int64_t>(3, config.feed_forward_expansion) * config.width},
          frames.options())),
      mixed(at::empty_like(frames)),
      pending{} {
  // In 16 bits, `wide` holds the activation.
  if (eight_bits) {
    activated = product_input(frames.size(0), config.feed_forward_expansion * config.width,
                              frames.options(), true);
  }
}

FusedLayer::Norm::Norm(const WeightReader& layer, const std::string& name)
    : weight(layer.get(name + ".weight")), bias(layer.get(name + ".bias")) {}

FusedLayer::FeedForward::FeedForward(const WeightReader& reader, bool eight_bits)
    : first(linear_of(reader, "linear1", eight_bits)),
      second(linear_of(reader, "linear2", eight_bits, 0.5)) {}

FusedLayer::FusedLayer(const EncoderConfig& config, const WeightReader& reader, bool eight_bits)
    : config_(config),
      precision_(half_precision_of(reader.dtype(), "the fused encoder")),
      norm_feed_forward1_(reader, "norm_feed_forward1"),
      norm_attention_(reader, "norm_self_att"),
      norm_convolution_(reader, "norm_conv"),
      norm_feed_forward2_(reader, "norm_feed_forward2"),
      norm_out_(reader, "norm_out"),
      feed_forward1_(reader.below("feed_forward1"), eight_bits),
      feed_forward2_(reader.below("feed_forward2"), eight_bits),
      qkv_(joined(reader.below("self_attn"), eight_bits)),
      attention_out_(linear_of(reader.below("self_attn"), "linear_out", false)),
      pointwise1_(linear_of(reader.below("conv"), "pointwise_conv1", eight_bits)),
      pointwise2_(linear_of(reader.below("conv"), "pointwise_conv2", false)) {
  const WeightReader attention = reader.below("self_attn"), conv = reader.below("conv");
  position_weight_ = attention.get("linear_pos.weight");
  bias_u_ = attention.get("pos_bias_u").flatten();
  bias_v_ = attention.get("pos_bias_v").flatten();
  ready_positions_ = at::linear(positions_for(config, kReadyPositions, position_weight_.options()),
                                position_weight_);
  const Depthwise depthwise(config, conv);
  depthwise_ = depthwise.weight.flatten(1).transpose(0, 1).contiguous().to(reader.device());
  depthwise_bias_ = (depthwise.bias.defined() ? depthwise.bias : at::zeros({config.width}))
                        .contiguous()
                        .to(reader.device());
  left_ = depthwise.left;
  if (config.conv_norm == EncoderConfig::ConvolutionNorm::layer) {
    channel_norm_weight_ = conv.get("batch_norm.weight");
    channel_norm_bias_ = conv.get("batch_norm.bias");
  }
}

void FusedLayer::begin(const at::Tensor& frames, LayerMemory& memory) const {
  norm(frames, norm_feed_forward1_, memory);
}

void FusedLayer::operator()(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                            const at::Tensor& positions, const LayerRings* rings) const {
  feed_forward(frames, feed_forward1_, memory);
  norm(frames, norm_attention_, memory);
  attention(frames, memory, batch, positions, rings);
  norm(frames, norm_convolution_, memory);
  convolution(frames, memory, batch, rings);
  norm(frames, norm_feed_forward2_, memory);
  feed_forward(frames, feed_forward2_, memory);
}

void FusedLayer::end(const at::Tensor& frames, LayerMemory& memory, const FusedLayer& next) const {
  const ScopedRange range(RangeName::encoder_norm);
  const ProductParts pending = std::exchange(memory.pending, {});
  const NormWeights own = norm_out_.weights(), of_next = next.norm_feed_forward1_.weights();
  if (pending.sums != nullptr) {
    add_norms(precision_, frames.mutable_data_ptr(), frames.size(0), narrowed(config_.width),
              pending, own, of_next, memory.normed.values.mutable_data_ptr(), stream_of(frames));
    return;
  }
  layer_norms(precision_, frames.mutable_data_ptr(), frames.size(0), narrowed(config_.width), own,
              of_next, pointers(memory.normed), stream_of(frames));
}

at::Tensor FusedLayer::end(const at::Tensor& frames, LayerMemory& memory,
                           const BatchRows& batch) const {
  const ScopedRange range(RangeName::encoder_norm);
  const ProductParts pending = std::exchange(memory.pending, {});
  at::Tensor padded =
      at::empty({batch.utterances(), batch.frames, config_.width}, frames.options());
  if (pending.sums != nullptr) {
    add_norm_padded(precision_, frames.const_data_ptr(), frames.size(0), narrowed(config_.width),
                    pending, norm_out_.weights(), batch.layout(), padded.mutable_data_ptr(),
                    stream_of(frames));
    return padded;
  }
  layer_norm_padded(precision_, frames.const_data_ptr(), narrowed(config_.width),
                    norm_out_.weights(), batch.layout(), padded.mutable_data_ptr(),
                    stream_of(frames));
  return padded;
}

void FusedLayer::norm(const at::Tensor& frames, const Norm& norm, LayerMemory& memory) const {
  const ScopedRange range(RangeName::encoder_norm);
  const ProductParts pending = std::exchange(memory.pending, {});
  if (pending.sums != nullptr) {
    add_norm(precision_, frames.mutable_data_ptr(), frames.size(0), narrowed(config_.width),
             pending, norm.weights(), memory.normed.values.mutable_data_ptr(), stream_of(frames));
    return;
  }
  layer_norm(precision_, frames.const_data_ptr(), frames.size(0), narrowed(config_.width),
             norm.weights(), pointers(memory.normed), stream_of(frames));
}

void FusedLayer::add(const Linear& map, const at::Tensor& x, const at::Tensor& frames,
                     LayerMemory& memory) const {
  const int64_t rows = frames.size(0);
  // With 8-bit products, norms give each row a scale, and only layer_norm() can do that.
  if (memory.normed.scales.defined() || !map.suits_parts(rows)) {
    map({x, {}}, frames, Linear::Result::add);
    return;
  }
  if (!memory.sums.defined())
    memory.sums = at::empty({kParts, rows, config_.width}, frames.options().dtype(at::kFloat));
  memory.pending = map.parts({x, {}}, memory.sums);
}

void FusedLayer::feed_forward(const at::Tensor& frames, const FeedForward& map,
                              LayerMemory& memory) const {
  const ScopedRange range(RangeName::encoder_feed_forward);
  const at::Tensor wide = part(memory.wide, map.first.width());
  if (!map.second.eight_bits()) {
    map.first(memory.normed, wide, Linear::Result::replace_silu);
    add(map.second, wide, frames, memory);
    return;
  }
  // SiLU is not part of the product here. A row's scale needs its greatest value, and a row lies in
  // tiles of many blocks.
  map.first(memory.normed, wide);
  silu(precision_, wide.const_data_ptr(), frames.size(0), narrowed(wide.size(1)),
       pointers(memory.activated), stream_of(frames));
  map.second(memory.activated, frames, Linear::Result::add);
}

void FusedLayer::attention(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                           const at::Tensor& positions, const LayerRings* rings) const {
  const ScopedRange range(RangeName::encoder_attention);
  const at::Tensor qkv = part(memory.wide, 3 * config_.width);
  qkv_(memory.normed, qkv);
  if (rings != nullptr) {
    keep_keys(qkv.const_data_ptr(), narrowed(config_.width), *rings, batch.layout(),
              stream_of(frames));
  }
  const at::Tensor table =
      positions.defined() ? at::linear(positions, position_weight_) : ready_positions_;
  attend(
      precision_,
      {qkv.const_data_ptr(), table.const_data_ptr(), bias_u_.const_data_ptr(),
       bias_v_.const_data_ptr(), memory.mixed.mutable_data_ptr(), narrowed(config_.width),
       narrowed(config_.heads), narrowed((table.size(0) + 1) / 2), narrowed(config_.left_context),
       narrowed(config_.right_context), narrowed(config_.chunk), rings},
      batch.layout(), stream_of(frames));
  add(attention_out_, memory.mixed, frames, memory);
}

void FusedLayer::convolution(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                             const LayerRings* rings) const {
  const ScopedRange range(RangeName::encoder_convolution);
  const at::Tensor gates = part(memory.wide, 2 * config_.width);
  pointwise1_(memory.normed, gates);
  NormWeights norm{};
  if (channel_norm_weight_.defined())
    norm = {channel_norm_weight_.const_data_ptr(), channel_norm_bias_.const_data_ptr()};
  convolve_time(precision_,
                {gates.const_data_ptr(), data_of<float>(depthwise_),
                 data_of<float>(depthwise_bias_), norm, memory.mixed.mutable_data_ptr(),
                 narrowed(config_.width), narrowed(config_.conv_kernel), narrowed(left_), rings},
                batch.layout(), stream_of(frames));
  add(pointwise2_, memory.mixed, frames, memory);
}

}  // namespace rtfx
