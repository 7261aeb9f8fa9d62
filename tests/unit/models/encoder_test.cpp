// Parts of the encoder against their definitions, and the whole against batch mates.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/conformer_layer.h"
#include "models/subsampling.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(RelativePositions, EqualTheSinusoids) {
  const at::Tensor table = relative_positions(3, 8, at::kFloat);
  ASSERT_EQ(table.size(0), 5);
  const std::vector<float> two = {0.909297f, -0.416147f, 0.198669f, 0.980067f,
                                  0.019999f, 0.999800f,  0.002000f, 0.999998f};
  const std::vector<float> minus_one = {-0.841471f, 0.540302f, -0.099833f, 0.995004f,
                                        -0.010000f, 0.999950f, -0.001000f, 1.000000f};
  EXPECT_LT(largest_difference(table[0], at::tensor(two)), 1e-6);
  EXPECT_LT(largest_difference(table[3], at::tensor(minus_one)), 1e-6);
  EXPECT_LT(largest_difference(table[2], at::tensor({0.f, 1.f, 0.f, 1.f, 0.f, 1.f, 0.f, 1.f})),
            1e-6);
}

TEST(RelativeShift, EqualsPadAndView) {
  const at::Tensor small =
      at::tensor({0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}).view({3, 5});
  EXPECT_TRUE(at::equal(relative_shift(small, 3),
                        at::tensor({2, 3, 4, 11, 12, 13, 20, 21, 22}).view({3, 3})));
  for (int64_t t = 1; t <= 8; ++t) {
    const at::Tensor scores = at::randn({2, 3, t, 2 * t - 1});
    const at::Tensor padded = at::constant_pad_nd(scores, {1, 0}).view({2, 3, 2 * t, t});
    const at::Tensor expected =
        padded.narrow(2, 1, 2 * t - 1).reshape({2, 3, t, 2 * t - 1}).narrow(3, 0, t);
    EXPECT_TRUE(at::equal(relative_shift(scores, t), expected)) << t;
  }
}

TEST(ConvolutionModule, BatchNormIsFolded) {
  StateDict weights = random_state_dict(test::small_config(), 3);
  const std::string prefix = "encoder.layers.0.conv.";
  for (const char* name : {"batch_norm.weight", "batch_norm.running_var"})
    weights[prefix + name].uniform_(0.5, 2);
  for (const char* name : {"batch_norm.bias", "batch_norm.running_mean", "depthwise_conv.bias",
                           "pointwise_conv1.bias"}) {
    weights[prefix + name].normal_();
  }
  const WeightReader reader(weights, prefix, at::kCPU, at::kFloat);
  const at::Tensor x = at::randn({2, 11, 16});
  const at::Tensor gated = at::glu(at::linear(x, reader.get("pointwise_conv1.weight").squeeze(-1),
                                              reader.get("pointwise_conv1.bias")),
                                   -1);
  at::Tensor y = at::conv1d(gated.transpose(1, 2), reader.get("depthwise_conv.weight"),
                            reader.get("depthwise_conv.bias"), 1, 4, 1, 16);
  y = at::batch_norm(y, reader.get("batch_norm.weight"), reader.get("batch_norm.bias"),
                     reader.get("batch_norm.running_mean"), reader.get("batch_norm.running_var"),
                     false, 0, 1e-5, false);
  y = at::linear(at::silu(y).transpose(1, 2), reader.get("pointwise_conv2.weight").squeeze(-1),
                 reader.get("pointwise_conv2.bias"));
  EXPECT_LT(largest_difference(ConvolutionModule(reader)(x, at::ones({2, 11, 1})), y), 1e-5);
}

TEST(Subsampling, LengthsAreCeilings) {
  for (const int64_t factor : {4, 8}) {
    for (const bool depthwise : {true, false}) {
      ModelConfig config = test::small_config();
      config.encoder.subsampling_factor = factor;
      config.encoder.depthwise_subsampling = depthwise;
      const StateDict weights = random_state_dict(config, 1);
      const Subsampling subsampling(
          config.encoder, 80, WeightReader(weights, "encoder.pre_encode.", at::kCPU, at::kFloat));
      for (int64_t frames = 1; frames <= 40; frames += 3) {
        const auto out = subsampling({at::randn({1, 80, frames}), at::tensor({frames}, at::kLong)});
        EXPECT_EQ(out.lengths.item<int64_t>(), (frames + factor - 1) / factor);
        EXPECT_EQ(out.frames.size(1), out.lengths.item<int64_t>());
      }
    }
  }
}

TEST(Subsampling, ChannelComesBeforeBinInTheFlattenedOrder) {
  ModelConfig config = test::small_config();
  config.encoder.x_scaling = false;
  StateDict weights = random_state_dict(config, 1);
  const int64_t channels = 8, bins = 10;
  // The last pointwise convolution passes a constant per channel, `out` picks column c * M' + m.
  weights["encoder.pre_encode.conv.6.weight"].zero_();
  weights["encoder.pre_encode.conv.6.bias"] = at::arange(channels, at::kFloat);
  at::Tensor out = at::zeros({16, channels * bins});
  for (int64_t i = 0; i < 16; ++i) out[i][i * 5] = 1;  // column 5i belongs to channel i / 2
  weights["encoder.pre_encode.out.weight"] = out;
  const Subsampling subsampling(config.encoder, 80,
                                WeightReader(weights, "encoder.pre_encode.", at::kCPU, at::kFloat));
  const auto result = subsampling({at::randn({1, 80, 8}), at::tensor({8}, at::kLong)});
  EXPECT_TRUE(at::equal(result.frames[0][0], at::floor_divide(at::arange(16, at::kFloat), 2)));
}

TEST(Encoder, XScalingMultipliesByTheSquareRootOfTheWidth) {
  ModelConfig config = test::small_config();
  const StateDict weights = random_state_dict(config, 1);
  const Features features{at::randn({1, 80, 24}), at::tensor({24}, at::kLong)};
  const auto run = [&](bool scaling) {
    config.encoder.x_scaling = scaling;
    return Subsampling(config.encoder, 80,
                       WeightReader(weights, "encoder.pre_encode.", at::kCPU, at::kFloat))(features)
        .frames;
  };
  EXPECT_LT(largest_difference(run(true), run(false) * 4), 1e-4);
}

class EncoderBatch : public testing::TestWithParam<int64_t> {};

TEST_P(EncoderBatch, AnUtteranceDoesNotDependOnItsBatchMates) {
  ModelConfig config = test::small_config();
  config.encoder.left_context = config.encoder.right_context = GetParam();
  const auto model = test::random_model(config, 5);
  const at::Tensor clip = at::randn({80, 77});
  const Encoded alone = (*model->encoder)({clip.unsqueeze(0), at::tensor({77}, at::kLong)});
  at::Tensor values = at::zeros({3, 80, 160});
  values[0].narrow(1, 0, 77).copy_(clip);
  values[1].copy_(at::randn({80, 160}));
  const Encoded together = (*model->encoder)({values, at::tensor({77, 160, 0}, at::kLong)});
  EXPECT_TRUE(at::equal(together.lengths, at::tensor({10, 20, 0}, at::kLong)));
  EXPECT_LT(largest_difference(together.frames[0].narrow(0, 0, 10), alone.frames[0]), 5e-5);
  EXPECT_FALSE(together.frames.isnan().any().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Context, EncoderBatch, testing::Values(-1, 4));

TEST(Attention, LimitedContextInBlocksEqualsFullAttentionWithABand) {
  EncoderConfig config = test::small_config().encoder;
  StateDict weights = random_state_dict(test::small_config(), 8);
  weights["encoder.layers.0.self_attn.pos_bias_u"].normal_();
  weights["encoder.layers.0.self_attn.pos_bias_v"].normal_();
  const WeightReader reader(weights, "encoder.layers.0.self_attn.", at::kCPU, at::kFloat);
  const int64_t frames = 1100, left = 70, right = 30;  // three blocks of queries
  const at::Tensor x = at::randn({1, frames, 16});
  const at::Tensor mask = at::ones({1, frames}, at::kBool);
  const at::Tensor positions = relative_positions(frames, 16, at::kFloat);
  config.left_context = left;
  config.right_context = right;
  const at::Tensor limited = Attention(config, reader)(x, mask, positions);

  // The definition, by hand: score[i, j] over all pairs, then the band.
  const auto heads = [&](const at::Tensor& t) { return t.view({frames, 2, 8}).transpose(0, 1); };
  const at::Tensor q =
      heads(at::linear(x[0], reader.get("linear_q.weight"), reader.get("linear_q.bias")));
  const at::Tensor k =
      heads(at::linear(x[0], reader.get("linear_k.weight"), reader.get("linear_k.bias")));
  const at::Tensor v =
      heads(at::linear(x[0], reader.get("linear_v.weight"), reader.get("linear_v.bias")));
  const at::Tensor p =
      at::linear(positions, reader.get("linear_pos.weight")).view({-1, 2, 8}).transpose(0, 1);
  const at::Tensor u = reader.get("pos_bias_u").unsqueeze(1),
                   w = reader.get("pos_bias_v").unsqueeze(1);
  const at::Tensor i = at::arange(frames).unsqueeze(1), j = at::arange(frames).unsqueeze(0);
  const at::Tensor bd = at::matmul(q + w, p.transpose(1, 2))
                            .gather(2, (frames - 1 - i + j).unsqueeze(0).expand({2, -1, -1}));
  at::Tensor scores = (at::matmul(q + u, k.transpose(1, 2)) + bd) / std::sqrt(8.0);
  scores = scores.masked_fill((i - j > left).logical_or(j - i > right), -INFINITY);
  const at::Tensor context =
      at::matmul(scores.softmax(-1), v).transpose(0, 1).reshape({frames, 16});
  const at::Tensor expected =
      at::linear(context, reader.get("linear_out.weight"), reader.get("linear_out.bias"));
  EXPECT_LT(largest_difference(limited[0], expected), 1e-5);
}

}  // namespace
}  // namespace rtfx
