// Tests local attention with global frames against NeMo's own steps, one utterance at a time.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/checkpoint/config.h"
#include "models/encoder/attention.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

constexpr int64_t kWidth = 16, kHeads = 4, kHeadWidth = 4, kLeft = 4, kRight = 4;

struct Case {
  int64_t tokens, spacing;
  bool separate;
};

ModelConfig config_of(const Case& c) {
  ModelConfig config = test::small_config();
  config.encoder.heads = kHeads;
  config.encoder.positions = EncoderConfig::Positions::local;
  config.encoder.global_tokens = c.tokens;
  config.encoder.global_tokens_spacing = c.spacing;
  config.encoder.global_attn_separate = c.separate;
  select_context(config, {kLeft, kRight}, "test");
  return config;
}

/// Computes the attention of one utterance x [T, d], written out. Keys of the window have
/// positions. Global keys have neither positions nor bias u, and one softmax covers both. Global
/// rows are then computed anew.
at::Tensor by_definition(const WeightReader& reader, const at::Tensor& x, const Case& c) {
  const int64_t frames = x.size(0);
  const auto heads = [&](const std::string& name) {
    return at::linear(x, reader.get(name + ".weight"), reader.get(name + ".bias"))
        .view({frames, kHeads, kHeadWidth})
        .transpose(0, 1);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(kHeadWidth));
  const at::Tensor q = heads("linear_q"), k = heads("linear_k"), v = heads("linear_v");
  const at::Tensor gq = c.separate ? heads("global_q") : q, gk = c.separate ? heads("global_k") : k,
                   gv = c.separate ? heads("global_v") : v;
  const at::Tensor p =
      at::linear(relative_positions(frames, kWidth, at::kFloat), reader.get("linear_pos.weight"))
          .view({-1, kHeads, kHeadWidth})
          .permute({1, 2, 0});
  const at::Tensor i = at::arange(frames).unsqueeze(1), j = at::arange(frames).unsqueeze(0);
  const at::Tensor bd = at::matmul(q + reader.get("pos_bias_v").unsqueeze(1), p)
                            .gather(2, (frames - 1 - i + j).unsqueeze(0).expand({kHeads, -1, -1}));
  at::Tensor local =
      (at::matmul(q + reader.get("pos_bias_u").unsqueeze(1), k.transpose(1, 2)) + bd) * scale;
  local = local.masked_fill((i - j > kLeft).logical_or(j - i > kRight), -INFINITY);
  std::vector<int64_t> positions;
  for (int64_t g = 0; g < c.tokens && g * c.spacing < frames; ++g)
    positions.push_back(g * c.spacing);
  const auto count = static_cast<int64_t>(positions.size());
  const at::Tensor at_global = at::tensor(positions);
  const at::Tensor global = at::matmul(gq, gk.index_select(1, at_global).transpose(1, 2)) * scale;
  const at::Tensor weights = at::cat({global, local}, 2).softmax(2);
  at::Tensor context = at::matmul(weights, at::cat({v.index_select(1, at_global), v}, 1));
  // NeMo computes [1, G, H, dk].transpose(0, 1).reshape(H, G, dk).
  const at::Tensor asked = gq.index_select(1, at_global)
                               .transpose(0, 1)
                               .contiguous()
                               .reshape({kHeads, count, kHeadWidth});
  const at::Tensor seen =
      at::matmul((at::matmul(asked, gk.transpose(1, 2)) * scale).softmax(2), gv);
  context.index_copy_(1, at_global, seen);
  return at::linear(context.transpose(0, 1).reshape({frames, kWidth}),
                    reader.get("linear_out.weight"), reader.get("linear_out.bias"));
}

class GlobalFrames : public testing::TestWithParam<Case> {};

TEST_P(GlobalFrames, EqualNemoWhateverTheBatch) {
  const ModelConfig config = config_of(GetParam());
  StateDict weights = test::random_state_dict(config, 8);
  for (auto& [name, tensor] : weights) {
    if (name.find("self_attn") != std::string::npos) tensor.normal_(0, 0.5);
  }
  const WeightReader reader(weights, "encoder.layers.0.self_attn.", at::kCPU, at::kFloat);
  const auto attention = make_attention(config.encoder, reader);
  for (const int64_t frames :
       {int64_t{9}, int64_t{40}, int64_t{1030}}) {  // the last one in three blocks
    const std::vector<int64_t> lengths = {frames, 5, 1, 0, frames - 2};
    const at::Tensor x = at::randn({5, frames, kWidth});
    const at::Tensor mask = at::arange(frames).unsqueeze(0) < at::tensor(lengths).unsqueeze(1);
    const at::Tensor result =
        (*attention)(x, mask, local_positions(frames, kWidth, kLeft, kRight, at::kFloat));
    EXPECT_FALSE(result.isnan().any().item<bool>());
    for (size_t row = 0; row < lengths.size(); ++row) {
      if (lengths[row] == 0) continue;
      const auto b = static_cast<int64_t>(row);
      const at::Tensor expected =
          by_definition(reader, x[b].narrow(0, 0, lengths[row]), GetParam());
      const at::Tensor ours = result[b].narrow(0, 0, lengths[row]);
      EXPECT_LT((ours - expected).abs().max().item<double>(), 2e-5)
          << "row of " << lengths[row] << " of " << frames;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GlobalFrames,
                         testing::Values(Case{1, 1, false}, Case{1, 1, true}, Case{3, 1, false},
                                         Case{2, 3, true}, Case{4, 7, false}, Case{50, 2, true}));

}  // namespace
}  // namespace rtfx
