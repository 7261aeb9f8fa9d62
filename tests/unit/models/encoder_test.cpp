// Tests parts of the encoder against their definitions, and rows of the whole encoder in any batch.
#include "models/encoder/encoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/stop.h"
#include "models/encoder/conformer_layer.h"
#include "models/encoder/subsampling.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Encoder, XScalingMultipliesByTheSquareRootOfTheWidth) {
  ModelConfig config = test::small_config();
  const StateDict weights = test::random_state_dict(config, 1);
  const Features features{at::randn({1, 80, 24}), at::tensor({24}, at::kLong)};
  const auto run = [&](bool scaling) {
    config.encoder.x_scaling = scaling;
    return Subsampling(config.encoder, 80,
                       WeightReader(weights, "encoder.pre_encode.", at::kCPU, at::kFloat))(features)
        .frames;
  };
  EXPECT_LT(largest_difference(run(true), run(false) * 4), 1e-4);
}

TEST(Encoder, EndsBetweenItsLayersWhereItIsStopped) {
  ModelConfig config = test::small_config();
  config.encoder.layers = 5;
  const Encoder encoder(config.encoder, 80, test::random_state_dict(config, 1), at::kCPU,
                        at::kFloat, {}, {});
  const Features features{at::randn({1, 80, 24}), at::tensor({24}, at::kLong)};
  int asked = 0;
  {
    const StopScope scope([&] { return ++asked == 3; });
    EXPECT_THROW(encoder(features), Interrupted);
  }
  EXPECT_EQ(asked, 3);
  EXPECT_NO_THROW(encoder(features));
  EXPECT_EQ(asked, 3);
}

TEST(ConvolutionModule, BatchNormIsFolded) {
  StateDict weights = test::random_state_dict(test::small_config(), 3);
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
  const FrameMasks all{{}, at::ones({2, 11, 1}), {}, {}};
  EXPECT_LT(largest_difference(ConvolutionModule(test::small_config().encoder, reader)(x, all), y),
            1e-5);
}

/// Computes the convolution module step by step on x [T, d], whose first `valid` frames are the
/// utterance. `norm` works on [1, d, T].
at::Tensor convolved(const WeightReader& reader, const at::Tensor& x, int64_t valid, int64_t left,
                     int64_t right, const std::function<at::Tensor(const at::Tensor&)>& norm) {
  const at::Tensor gated = at::glu(at::linear(x, reader.get("pointwise_conv1.weight").squeeze(-1),
                                              reader.get("pointwise_conv1.bias")),
                                   -1);
  const at::Tensor weight = reader.get("depthwise_conv.weight").squeeze(1);  // [d, K]
  at::Tensor y = at::empty({16, x.size(0)});
  for (int64_t t = 0; t < x.size(0); ++t) {
    at::Tensor sum = reader.get("depthwise_conv.bias").clone();
    for (int64_t k = 0; k <= left + right; ++k) {
      const int64_t frame = t - left + k;
      if (frame >= 0 && frame < valid) sum = sum + weight.select(1, k) * gated[frame];
    }
    y.select(1, t).copy_(sum);
  }
  return at::linear(at::silu(norm(y.unsqueeze(0))[0]).t(),
                    reader.get("pointwise_conv2.weight").squeeze(-1),
                    reader.get("pointwise_conv2.bias"));
}

TEST(ConvolutionModule, EveryNormAndContextEqualsItsDefinition) {
  using Norm = EncoderConfig::ConvolutionNorm;
  for (const Norm kind :
       {Norm::batch, Norm::fused_batch, Norm::layer, Norm::group, Norm::instance}) {
    for (const int64_t right : {4, 0, 2, 8}) {
      ModelConfig config = test::small_config();
      config.encoder.conv_norm = kind;
      config.encoder.norm_groups = 4;
      config.encoder.conv_right_context = right;
      StateDict weights = test::random_state_dict(config, 3);
      for (auto& [name, tensor] : weights) {
        if (name.find(".conv.") != std::string::npos) tensor.uniform_(0.1, 1);
      }
      const WeightReader reader(weights, "encoder.layers.0.conv.", at::kCPU, at::kFloat);
      const WeightReader stored = reader.below("batch_norm");
      const at::Tensor weight = stored.optional("weight"), bias = stored.optional("bias");
      const auto norm = [&](const at::Tensor& y) -> at::Tensor {
        switch (kind) {
          case Norm::batch:
            return at::batch_norm(y, weight, bias, stored.get("running_mean"),
                                  stored.get("running_var"), false, 0, 1e-5, false);
          case Norm::fused_batch:
            return y * weight.unsqueeze(1) + bias.unsqueeze(1);
          case Norm::layer:
            return at::layer_norm(y.transpose(1, 2), {16}, weight, bias).transpose(1, 2);
          case Norm::group:
            return at::group_norm(y, 4, weight, bias);
          case Norm::instance:
            return at::group_norm(y, 16);
        }
        return y;
      };
      // The second row of 11 frames has 5 of its own, and a sixth one that only the norm counts.
      at::Tensor x = at::randn({2, 11, 16});
      const at::Tensor valid = at::arange(11).view({1, -1}) < at::tensor({11, 5}).view({-1, 1});
      const at::Tensor seen = at::arange(11).view({1, -1}) < at::tensor({11, 6}).view({-1, 1});
      const FrameMasks masks{
          valid, valid.unsqueeze(-1).to(at::kFloat), seen.unsqueeze(1).to(at::kFloat), {}};
      const at::Tensor ours = ConvolutionModule(config.encoder, reader)(x, masks);
      EXPECT_LT(largest_difference(ours[0], convolved(reader, x[0], 11, 8 - right, right, norm)),
                1e-4);
      const at::Tensor row = convolved(reader, x[1].narrow(0, 0, 6), 5, 8 - right, right, norm);
      EXPECT_LT(largest_difference(ours[1].narrow(0, 0, 5), row.narrow(0, 0, 5)), 1e-4);
    }
  }
}

class EncoderBatch : public testing::TestWithParam<test::Variant> {
 protected:
  EncoderBatch() { GetParam().change(config_); }

  ModelConfig config_ = test::small_config();
};

TEST_P(EncoderBatch, AnUtteranceDoesNotDependOnItsBatchMates) {
  const auto model = test::random_model(config_, 5);
  const std::vector<int64_t> lengths = {77, 160, 0, 1, 80, 13};
  at::Tensor values = at::zeros({6, 80, 160});
  for (size_t row = 0; row < lengths.size(); ++row)
    values[static_cast<int64_t>(row)].narrow(1, 0, lengths[row]).normal_();
  const Encoded together = (*model->encoder)({values, at::tensor(lengths)});
  EXPECT_FALSE(together.frames.isnan().any().item<bool>());
  EXPECT_EQ(together.frames.size(2), config_.encoder.frame_width());
  for (size_t row = 0; row < lengths.size(); ++row) {
    const auto b = static_cast<int64_t>(row);
    const int64_t frames = config_.encoder.subsampled(lengths[row]);
    EXPECT_EQ(together.lengths[b].item<int64_t>(), frames) << lengths[row];
    if (frames == 0) continue;
    const Encoded alone = (*model->encoder)(
        {values[b].narrow(1, 0, lengths[row]).unsqueeze(0), at::tensor({lengths[row]}, at::kLong)});
    EXPECT_EQ(alone.frames.size(1), frames);
    EXPECT_LT(largest_difference(together.frames[b].narrow(0, 0, frames), alone.frames[0]), 5e-5)
        << lengths[row];
  }
}

TEST_P(EncoderBatch, HalfPrecisionIsClose) {
  const Features features{at::randn({2, 80, 100}), at::tensor({100, 61}, at::kLong)};
  const Encoded exact = (*test::random_model(config_, 5)->encoder)(features);
  const auto model = test::random_model(config_, 5, at::kCPU, at::kBFloat16);
  const Encoded half = (*model->encoder)(features);
  EXPECT_EQ(half.frames.scalar_type(), at::kBFloat16);
  const int64_t frames = exact.lengths[1].item<int64_t>();
  EXPECT_LT(largest_difference(half.frames.narrow(1, 0, frames).to(at::kFloat),
                               exact.frames.narrow(1, 0, frames)),
            0.3);
}

TEST_P(EncoderBatch, LengthsAreThoseOfTheConfiguration) {
  const auto model = test::random_model(config_, 5);
  for (int64_t samples = 0; samples <= 160 * 40; samples += 37) {
    const at::Tensor audio = at::randn({1, std::max<int64_t>(samples, 1)}) * 0.1;
    const at::Tensor lengths = at::tensor({samples}, at::kLong);
    const Features features = (*model->features)(audio, lengths);
    if (samples % 5 == 0) {  // other lengths check only the features
      EXPECT_EQ((*model->encoder)(features).lengths.item<int64_t>(),
                config_.encoded_frames(samples));
    }
    EXPECT_EQ(features.lengths.item<int64_t>(), config_.features.frames(samples));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EncoderBatch, testing::ValuesIn(test::variants()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Encoder, NormsOverTimeCountTheFrameOfTheLastWindow) {
  // NeMo makes 17 feature frames of an utterance of 16. They become three encoder frames of 8, and
  // two of these are the utterance's own. With 17 of 20 feature frames, both numbers are three.
  ModelConfig config = test::small_config();
  test::norm(EncoderConfig::ConvolutionNorm::group)(config);
  config.encoder.layers = 1;
  const auto model = test::random_model(config, 5);
  const at::Tensor values = at::randn({1, 80, 16});
  const auto frames = [&](int64_t behind) {
    const at::Tensor padded = at::constant_pad_nd(values, {0, behind});
    return (*model->encoder)({padded, at::tensor({16}, at::kLong)}).frames.narrow(1, 0, 2);
  };
  EXPECT_LT(largest_difference(frames(0), frames(40)), 1e-5);
  // Norms over two frames only would give these values, because the row's own length is one less.
  const Encoded other = (*model->encoder)({values, at::tensor({15}, at::kLong)});
  EXPECT_EQ(other.lengths.item<int64_t>(), 2);
  at::Tensor shorter = values.clone();
  shorter.select(2, 15).zero_();
  const Encoded same_features = (*model->encoder)({shorter, at::tensor({16}, at::kLong)});
  EXPECT_GT(largest_difference(same_features.frames.narrow(1, 0, 2), other.frames), 1e-3);
}

/// Frames behind a frame's reach do not change it, and frames within its reach do.
TEST(Encoder, StreamingModelsSeeNothingBehindTheirChunk) {
  ModelConfig config = test::small_config();
  test::streaming(config);
  const auto model = test::random_model(config, 5);
  const at::Tensor lengths = at::tensor({160}, at::kLong);
  at::Tensor values = at::randn({1, 80, 160});
  const at::Tensor before = (*model->encoder)({values, lengths}).frames.clone();
  // Encoder frame 9 itself reads mel frames up to 72. It begins a chunk of three frames, which
  // shows it later mel frames, while the frames before it see none of them.
  values.slice(2, 73).normal_();
  const at::Tensor changed =
      ((*model->encoder)({values, lengths}).frames - before).abs().amax(2)[0];
  EXPECT_EQ(changed.narrow(0, 0, 9).max().item<double>(), 0);
  EXPECT_GT(changed[9].item<double>(), 0);
}

constexpr double kGB = 1e9;

EncoderConfig quickstart() {
  EncoderConfig config;
  config.layers = 8;
  config.width = 144;
  config.heads = 4;
  return config;
}

double gigabytes(const EncoderConfig& config, int64_t rows, double minutes, int64_t element) {
  const auto mel_frames = static_cast<int64_t>(minutes * 60 * 100);
  return static_cast<double>(encoder_bytes(config, 80, rows, mel_frames, element)) / kGB;
}

// These are the largest resident memories of `rtfx transcribe`, less the 0.51 GB of a 1 s
// recording. They were measured on a CPU with LibTorch 2.11 and the quickstart model.
TEST(EncoderMemory, IsWhatWasMeasured) {
  EXPECT_NEAR(gigabytes(quickstart(), 1, 16, 4), 7.14, 0.1 * 7.14);
  EXPECT_NEAR(gigabytes(quickstart(), 1, 16, 2), 3.66, 0.1 * 3.66);
  EXPECT_NEAR(gigabytes(quickstart(), 1, 8, 4), 2.27, 0.2 * 2.27);
}

TEST(EncoderMemory, GrowsWithRowsAndNotWithTheSquareOfALimitedContext) {
  EXPECT_DOUBLE_EQ(gigabytes(quickstart(), 3, 16, 4), 3 * gigabytes(quickstart(), 1, 16, 4));
  EncoderConfig limited = quickstart();
  limited.left_context = limited.right_context = 128;
  EXPECT_NEAR(gigabytes(limited, 1, 60, 4), 15 * gigabytes(limited, 1, 4, 4), 0.1);
  EXPECT_GT(gigabytes(quickstart(), 1, 60, 4), 5 * gigabytes(limited, 1, 60, 4));
}

TEST(EncoderMemory, OfTheFusedEncoderGrowsWithTheLength) {
  const auto fused = [](int64_t rows, int64_t minutes) {
    return fused_encoder_bytes(quickstart(), 80, rows, minutes * 6000);
  };
  EXPECT_EQ(fused(1, 64), 16 * fused(1, 4));
  EXPECT_EQ(fused(3, 16), 3 * fused(1, 16));
  EXPECT_LT(static_cast<double>(fused(1, 16)), 0.2 * kGB * gigabytes(quickstart(), 1, 16, 2));
}

}  // namespace
}  // namespace rtfx
