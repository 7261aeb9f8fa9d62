#include "models/encoder/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "models/checkpoint/score_dtype.h"

namespace rtfx {

namespace {

/// Queries per block with limited context, or one chunk where that is longer.
constexpr int64_t kQueryBlock = 512;

/// Computes the sinusoids of positions [P] -> [P, width], in their type.
at::Tensor sinusoids(const at::Tensor& positions, int64_t width) {
  const double rate = -std::log(10000.0) / static_cast<double>(width);
  const at::Tensor rates = (at::arange(0, width, 2, positions.options()) * rate).exp();
  const at::Tensor angles = positions.unsqueeze(1) * rates;
  return at::stack({angles.sin(), angles.cos()}, 2).flatten(1);
}

/// Returns options for angles, which are computed in float32 even where their sines are rounded to
/// 16 bits.
at::TensorOptions angle_options(const at::TensorOptions& options) {
  return options.dtype(score_dtype(c10::typeMetaToScalarType(options.dtype())));
}

/// Returns the distances frames - 1 down to -(frames - 1).
at::Tensor distances(int64_t frames, const at::TensorOptions& options) {
  return at::arange(frames - 1, -frames, -1, angle_options(options));
}

}  // namespace

at::Tensor relative_positions(int64_t frames, int64_t width, const at::TensorOptions& options) {
  return sinusoids(distances(frames, options), width).to(options.dtype());
}

at::Tensor local_positions(int64_t frames, int64_t width, int64_t left, int64_t right,
                           const at::TensorOptions& options) {
  if (left == right) return relative_positions(frames, width, options);
  const int64_t side = std::max(left, right);
  const at::Tensor distance = distances(frames, options);
  const at::Tensor column = side - distance;  // column of NeMo's scores, 0 to 2 side
  const at::Tensor first = column < left, last = column >= 2 * side - right;
  const at::Tensor position = at::where(first, left - column, 2 * side - right - column);
  const at::Tensor known = first.logical_or(last).unsqueeze(1);
  return (sinusoids(position, width) * known).to(options.dtype());
}

at::Tensor positions_for(const EncoderConfig& config, int64_t frames,
                         const at::TensorOptions& options) {
  if (config.positions == EncoderConfig::Positions::relative)
    return relative_positions(frames, config.width, options);
  return local_positions(frames, config.width, config.left_context, config.right_context, options);
}

at::Tensor absolute_positions(int64_t frames, int64_t width, const at::TensorOptions& options) {
  return sinusoids(at::arange(frames, angle_options(options)), width).to(options.dtype());
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
      scale_(1.0 / std::sqrt(static_cast<double>(head_width_))),
      left_(config.left_context),
      right_(config.right_context),
      chunk_(config.chunk),
      qkv_weight_(reader.joined({"linear_q.weight", "linear_k.weight", "linear_v.weight"})),
      qkv_bias_(reader.joined({"linear_q.bias", "linear_k.bias", "linear_v.bias"})),
      out_weight_(reader.get("linear_out.weight")),
      out_bias_(reader.optional("linear_out.bias")) {}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& key_mask,
                                 const at::Tensor& positions) const {
  const Heads heads = project(x);
  std::vector<at::Tensor> contexts;
  for (const Block& block : blocks(x.size(1))) {
    const at::Tensor added = bias(heads, key_mask, positions, block);
    contexts.push_back(at::scaled_dot_product_attention(
        biased(heads.q.narrow(2, block.query, block.queries)),
        heads.k.narrow(2, block.key, block.keys), heads.v.narrow(2, block.key, block.keys), added,
        0.0, false, scale_));
  }
  return merge(contexts);
}

Attention::Heads Attention::project(const at::Tensor& x) const {
  const at::Tensor qkv = at::linear(x, qkv_weight_, qkv_bias_)
                             .view({x.size(0), x.size(1), 3, heads_, head_width_})
                             .permute({2, 0, 3, 1, 4});
  return {qkv[0], qkv[1], qkv[2]};
}

std::vector<Attention::Block> Attention::blocks(int64_t frames) const {
  if (left_ < 0 && right_ < 0) return {{0, frames, 0, frames}};
  const int64_t step = std::max<int64_t>(1, kQueryBlock / chunk_) * chunk_;
  std::vector<Block> all;
  for (int64_t begin = 0; begin < frames; begin += step) {
    Block block{begin, std::min(step, frames - begin), 0, frames};
    if (left_ >= 0) block.key = std::max<int64_t>(0, begin - left_);
    // The last chunk of the block is complete, except at the end of the batch.
    const int64_t end = right_ >= 0 ? std::min(frames, begin + step + right_) : frames;
    block.keys = end - block.key;
    all.push_back(block);
  }
  return all;
}

at::Tensor Attention::merge(const std::vector<at::Tensor>& contexts) const {
  const at::Tensor context = contexts.size() == 1 ? contexts.front() : at::cat(contexts, 2);
  return at::linear(
      context.transpose(1, 2).reshape({context.size(0), context.size(2), heads_ * head_width_}),
      out_weight_, out_bias_);
}

at::Tensor Attention::visible(const at::Tensor& key_mask, const Block& block) const {
  at::Tensor seen = key_mask.narrow(1, block.key, block.keys).unsqueeze(1).unsqueeze(2);
  if (left_ < 0 && right_ < 0) return seen;
  const auto index = at::TensorOptions(at::kLong).device(key_mask.device());
  at::Tensor chunk = at::arange(block.query, block.query + block.queries, index).unsqueeze(1);
  if (chunk_ > 1) chunk = at::floor_divide(chunk, chunk_) * chunk_;
  // The distance from the first frame of the query's chunk to the key.
  const at::Tensor distance =
      chunk - at::arange(block.key, block.key + block.keys, index).unsqueeze(0);
  if (left_ >= 0) seen = seen.logical_and(distance <= left_);
  if (right_ >= 0) seen = seen.logical_and(distance > -chunk_ - right_);
  return seen;
}

at::Tensor Attention::bias(const Heads& heads, const at::Tensor& key_mask,
                           const at::Tensor& positions, const Block& block) const {
  at::Tensor table;
  if (positions.defined()) {
    const int64_t first = block.query + block.queries - 1 - block.key;
    const int64_t last = block.query - (block.key + block.keys - 1);
    table = projected(positions.narrow(0, heads.q.size(2) - 1 - first, first - last + 1));
  }
  return bias(heads.q.narrow(2, block.query, block.queries), table, visible(key_mask, block));
}

at::Tensor Attention::bias(const at::Tensor& query, const at::Tensor& /*position_keys*/,
                           const at::Tensor& seen) const {
  return at::zeros(seen.sizes(), query.options()).masked_fill_(seen.logical_not(), kMaskedScore);
}

at::Tensor Attention::projected(const at::Tensor& /*positions*/) const { return {}; }

at::Tensor Attention::position_keys(const EncoderConfig& /*config*/, int64_t /*past*/,
                                    int64_t /*count*/) const {
  return {};
}

at::Tensor Attention::forward_step(const at::Tensor& x, Past& past, const at::Tensor& key_mask,
                                   const at::Tensor& position_keys) const {
  const int64_t before = past.keys.size(2), count = x.size(1);
  const Heads heads = project(x);
  const at::Tensor keys = at::cat({past.keys, heads.k}, 2);
  const at::Tensor values = at::cat({past.values, heads.v}, 2);
  const at::Tensor seen = key_mask.unsqueeze(1).unsqueeze(2);
  past = {keys.narrow(2, count, before), values.narrow(2, count, before)};
  return merge({at::scaled_dot_product_attention(
      biased(heads.q), keys, values, bias(heads.q, position_keys, seen), 0.0, false, scale_)});
}

RelativeAttention::RelativeAttention(const EncoderConfig& config, const WeightReader& reader)
    : Attention(config, reader),
      position_weight_(reader.get("linear_pos.weight")),
      bias_u_(reader.get("pos_bias_u").unsqueeze(1)),
      bias_v_(reader.get("pos_bias_v").unsqueeze(1)) {}

at::Tensor RelativeAttention::projected(const at::Tensor& positions) const {
  return at::linear(positions, position_weight_).view({-1, heads_, head_width_}).permute({1, 2, 0});
}

at::Tensor RelativeAttention::position_keys(const EncoderConfig& config, int64_t past,
                                            int64_t count) const {
  const at::Tensor all = relative_positions(past + count, config.width, position_weight_.options());
  return projected(all.narrow(0, 0, past + 2 * count - 1)).contiguous();
}

at::Tensor RelativeAttention::bias(const at::Tensor& query, const at::Tensor& position_keys,
                                   const at::Tensor& seen) const {
  at::Tensor scores =
      relative_shift(at::matmul(query + bias_v_, position_keys), seen.size(3)) * scale_;
  return scores.masked_fill_(seen.logical_not(), kMaskedScore);
}

at::Tensor RelativeAttention::biased(const at::Tensor& query) const { return query + bias_u_; }

GlobalAttention::GlobalAttention(const EncoderConfig& config, const WeightReader& reader)
    : RelativeAttention(config, reader),
      tokens_(config.global_tokens),
      spacing_(config.global_tokens_spacing),
      global_weight_(reader.joined({"global_q.weight", "global_k.weight", "global_v.weight"})),
      global_bias_(reader.joined({"global_q.bias", "global_k.bias", "global_v.bias"})) {}

Attention::Heads GlobalAttention::project_global(const at::Tensor& x) const {
  const at::Tensor qkv = at::linear(x, global_weight_, global_bias_)
                             .view({x.size(0), x.size(1), 3, heads_, head_width_})
                             .permute({2, 0, 3, 1, 4});
  return {qkv[0], qkv[1], qkv[2]};
}

at::Tensor GlobalAttention::operator()(const at::Tensor& x, const at::Tensor& key_mask,
                                       const at::Tensor& positions) const {
  const Heads heads = project(x);
  const Heads global = global_weight_.defined() ? project_global(x) : heads;
  const int64_t end = std::min(tokens_ * spacing_, x.size(1));
  const at::Tensor keys = global.k.slice(2, 0, end, spacing_);
  const at::Tensor values = heads.v.slice(2, 0, end, spacing_);
  const at::Tensor real = key_mask.slice(1, 0, end, spacing_);
  const at::Tensor padding = real.logical_not().unsqueeze(1).unsqueeze(2);

  std::vector<at::Tensor> contexts;
  for (const Block& block : blocks(x.size(1))) {
    const auto of_keys = [&](const at::Tensor& t) { return t.narrow(2, block.key, block.keys); };
    const auto of_queries = [&](const at::Tensor& t) {
      return t.narrow(2, block.query, block.queries);
    };
    // The scores of global keys have another query. They are complete, and enter as the bias of
    // keys that are zero.
    const at::Tensor scores = (at::matmul(of_queries(global.q), keys.transpose(2, 3)) * scale_)
                                  .masked_fill_(padding, kMaskedScore);
    contexts.push_back(at::scaled_dot_product_attention(
        biased(of_queries(heads.q)), at::cat({at::zeros_like(keys), of_keys(heads.k)}, 2),
        at::cat({values, of_keys(heads.v)}, 2),
        at::cat({scores, bias(heads, key_mask, positions, block)}, 3), 0.0, false, scale_));
  }
  at::Tensor context = contexts.size() == 1 ? contexts.front() : at::cat(contexts, 2);
  context.slice(2, 0, end, spacing_)
      .copy_(see_all(global, global.q.slice(2, 0, end, spacing_), real, key_mask));
  return merge({context});
}

at::Tensor GlobalAttention::see_all(const Heads& global, const at::Tensor& queries,
                                    const at::Tensor& real, const at::Tensor& key_mask) const {
  const int64_t rows = queries.size(0), count = queries.size(2);
  const at::TensorOptions index = real.options().dtype(at::kLong);
  // The order depends on the number of global frames of the row, not on other rows of the batch.
  const at::Tensor own = real.sum(1).view({-1, 1, 1});
  const at::Tensor flat = at::arange(heads_, index).view({1, -1, 1}) * own +
                          at::arange(count, index).view({1, 1, -1});  // [B, H, G]
  const at::Tensor frame = at::floor_divide(flat, heads_).clamp_max(count - 1);
  const at::Tensor source = (flat.remainder(heads_) * count + frame).flatten(1).unsqueeze(2);
  const at::Tensor asked = queries.reshape({rows, heads_ * count, head_width_})
                               .gather(1, source.expand({-1, -1, head_width_}))
                               .view({rows, heads_, count, head_width_});
  const at::Tensor seen = key_mask.unsqueeze(1).unsqueeze(2);
  const at::Tensor added =
      at::zeros(seen.sizes(), asked.options()).masked_fill_(seen.logical_not(), kMaskedScore);
  return at::scaled_dot_product_attention(asked, global.k, global.v, added, 0.0, false, scale_);
}

std::unique_ptr<const Attention> make_attention(const EncoderConfig& config,
                                                const WeightReader& reader) {
  if (config.positions == EncoderConfig::Positions::absolute)
    return std::make_unique<Attention>(config, reader);
  if (config.global_tokens > 0) return std::make_unique<GlobalAttention>(config, reader);
  return std::make_unique<RelativeAttention>(config, reader);
}

}  // namespace rtfx
