#include "models/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace rtfx {
namespace {

/// Large enough that exp() of it is zero in every dtype, finite so that a row without any key gives
/// a mean instead of NaN.
constexpr double kMasked = -1e4;
/// Queries per block with limited context.
constexpr int64_t kQueryBlock = 512;

at::Tensor joined(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  return a.defined() ? at::cat({a, b, c}) : at::Tensor();
}

}  // namespace

at::Tensor relative_positions(int64_t frames, int64_t width, const at::TensorOptions& options) {
  const at::TensorOptions exact = options.dtype(at::kFloat);
  const at::Tensor positions = at::arange(frames - 1, -frames, -1, exact).unsqueeze(1);
  const double rate = -std::log(10000.0) / static_cast<double>(width);
  const at::Tensor angles = positions * (at::arange(0, width, 2, exact) * rate).exp();
  return at::stack({angles.sin(), angles.cos()}, 2).flatten(1).to(options.dtype());
}

at::Tensor relative_shift(const at::Tensor& scores, int64_t keys) {
  const at::Tensor dense = scores.contiguous();
  const int64_t queries = dense.size(-2), positions = dense.size(-1);
  auto sizes = dense.sizes().vec();
  auto strides = dense.strides().vec();
  sizes.back() = keys;
  strides[strides.size() - 2] = positions - 1;
  return dense.as_strided(sizes, strides, dense.storage_offset() + queries - 1);
}

Attention::Attention(const EncoderConfig& config, const WeightReader& reader)
    : heads_(config.heads),
      head_width_(config.width / config.heads),
      left_(config.left_context),
      right_(config.right_context),
      qkv_weight_(joined(reader.get("linear_q.weight"), reader.get("linear_k.weight"),
                         reader.get("linear_v.weight"))),
      qkv_bias_(joined(reader.optional("linear_q.bias"), reader.optional("linear_k.bias"),
                       reader.optional("linear_v.bias"))),
      out_weight_(reader.get("linear_out.weight")),
      out_bias_(reader.optional("linear_out.bias")),
      position_weight_(reader.get("linear_pos.weight")),
      bias_u_(reader.get("pos_bias_u").unsqueeze(1)),
      bias_v_(reader.get("pos_bias_v").unsqueeze(1)) {}

at::Tensor Attention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& key_mask, const at::Tensor& positions,
                             const Block& block) const {
  const at::Tensor query = q.narrow(2, block.query, block.queries);
  const at::Tensor key = k.narrow(2, block.key, block.keys),
                   value = v.narrow(2, block.key, block.keys);
  const int64_t first = block.query + block.queries - 1 - block.key;
  const int64_t last = block.query - (block.key + block.keys - 1);
  const at::Tensor table = positions.narrow(0, q.size(2) - 1 - first, first - last + 1);
  const at::Tensor p =
      at::linear(table, position_weight_).view({-1, heads_, head_width_}).permute({1, 2, 0});

  const double scale = 1.0 / std::sqrt(static_cast<double>(head_width_));
  at::Tensor bias = relative_shift(at::matmul(query + bias_v_, p), block.keys) * scale;
  at::Tensor allowed = key_mask.narrow(1, block.key, block.keys).unsqueeze(1).unsqueeze(2);
  if (left_ >= 0 || right_ >= 0) {
    const auto index = at::TensorOptions(at::kLong).device(q.device());
    const at::Tensor distance =
        (at::arange(block.query, block.query + block.queries, index).unsqueeze(1) -
         at::arange(block.key, block.key + block.keys, index).unsqueeze(0));
    if (left_ >= 0) allowed = allowed.logical_and(distance <= left_);
    if (right_ >= 0) allowed = allowed.logical_and(distance >= -right_);
  }
  bias.masked_fill_(allowed.logical_not(), kMasked);
  return at::scaled_dot_product_attention(query + bias_u_, key, value, bias, 0.0, false, scale);
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& key_mask,
                                 const at::Tensor& positions) const {
  const int64_t batch = x.size(0), frames = x.size(1);
  const at::Tensor qkv = at::linear(x, qkv_weight_, qkv_bias_)
                             .view({batch, frames, 3, heads_, head_width_})
                             .permute({2, 0, 3, 1, 4});
  const bool limited = left_ >= 0 && right_ >= 0;
  const int64_t step = limited ? kQueryBlock : frames;
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < frames; begin += step) {
    Block block{begin, std::min(step, frames - begin), 0, frames};
    if (limited) {
      block.key = std::max<int64_t>(0, begin - left_);
      block.keys = std::min(frames, begin + block.queries + right_) - block.key;
    }
    parts.push_back(attend(qkv[0], qkv[1], qkv[2], key_mask, positions, block));
  }
  const at::Tensor context = parts.size() == 1 ? parts.front() : at::cat(parts, 2);
  return at::linear(context.transpose(1, 2).reshape({batch, frames, heads_ * head_width_}),
                    out_weight_, out_bias_);
}

}  // namespace rtfx
