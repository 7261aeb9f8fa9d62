#include "models/encoder/global_attention.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {
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
    // The scores of global keys come whole, with another query: as a bias of keys that are zero.
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
  // The order depends on how many global frames a row has, not on those of its batch.
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

}  // namespace rtfx
