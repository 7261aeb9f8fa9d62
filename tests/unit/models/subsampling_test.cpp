// Tests the sub-sampling of feature frames to encoder frames against convolutions written out.
#include "models/encoder/subsampling.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

WeightReader reader_of(const StateDict& weights) {
  return {weights, "encoder.", at::kCPU, at::kFloat};
}

Features features_of(const at::Tensor& values) {
  return {values, at::full({values.size(0)}, values.size(2), at::kLong)};
}

TEST(Subsampling, LengthsAreCeilings) {
  for (const int64_t factor : {4, 8}) {
    for (const bool depthwise : {true, false}) {
      ModelConfig config = test::small_config();
      config.encoder.subsampling_factor = factor;
      config.encoder.depthwise_subsampling = depthwise;
      const StateDict weights = test::random_state_dict(config, 1);
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
  StateDict weights = test::random_state_dict(config, 1);
  const int64_t channels = 8, bins = 10;
  // The last pointwise convolution passes one constant per channel, and `out` picks column
  // c * M' + m.
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

/// Computes one 3x3 convolution of stride 2 over an image [C, T, M], one output at a time. Both
/// axes have `before` zeros in front and `after` zeros behind.
at::Tensor strided(const at::Tensor& image, const at::Tensor& weight, const at::Tensor& bias,
                   int64_t before, int64_t after, bool depthwise) {
  const int64_t frames = image.size(1), bins = image.size(2);
  const int64_t out_frames = (frames + before + after - 3) / 2 + 1;
  const int64_t out_bins = (bins + before + after - 3) / 2 + 1;
  at::Tensor out = at::empty({weight.size(0), out_frames, out_bins});
  for (int64_t t = 0; t < out_frames; ++t) {
    for (int64_t m = 0; m < out_bins; ++m) {
      at::Tensor sum = bias.clone();
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 3; ++j) {
          const int64_t frame = 2 * t + i - before, bin = 2 * m + j - before;
          if (frame < 0 || frame >= frames || bin < 0 || bin >= bins) continue;
          const at::Tensor pixel = image.select(1, frame).select(1, bin);
          const at::Tensor w = weight.select(2, i).select(2, j);  // [out, in]
          sum = sum + (depthwise ? w.squeeze(1) * pixel : at::matmul(w, pixel));
        }
      }
      out.select(1, t).select(1, m).copy_(sum);
    }
  }
  return out;
}

/// Returns the frames [d, T'] of one utterance [M, T].
at::Tensor by_definition(const EncoderConfig& e, const WeightReader& reader,
                         const at::Tensor& mel) {
  const int64_t before = e.causal_downsampling ? 2 : 1;
  at::Tensor image = mel.t().unsqueeze(0);
  const auto get = [&](int64_t index, const char* part) {
    return reader.get("pre_encode.conv." + std::to_string(index) + part);
  };
  image = strided(image, get(0, ".weight"), get(0, ".bias"), before, 1, false).relu();
  int64_t index = 2;
  for (int64_t factor = 4; factor <= e.subsampling_factor; factor *= 2) {
    image = strided(image, get(index, ".weight"), get(index, ".bias"), before, 1,
                    e.depthwise_subsampling);
    if (e.depthwise_subsampling) {
      image = at::einsum("oc,ctm->otm", {get(index + 1, ".weight").flatten(1), image}) +
              get(index + 1, ".bias").view({-1, 1, 1});
      ++index;
    }
    image = image.relu();
    index += 2;
  }
  return at::linear(image.transpose(0, 1).flatten(1), reader.get("pre_encode.out.weight"),
                    reader.get("pre_encode.out.bias"));
}

TEST(Subsampling, EveryKindEqualsItsDefinitionWhateverTheBatch) {
  for (const bool causal : {false, true}) {
    for (const bool depthwise : {false, true}) {
      for (const int64_t factor : {2, 4, 8}) {
        ModelConfig config = test::small_config();
        config.encoder.x_scaling = false;
        config.encoder.causal_downsampling = causal;
        config.encoder.depthwise_subsampling = depthwise;
        config.encoder.subsampling_factor = factor;
        config.encoder.subsampling_channels = 3;
        config.features.mel_bins = 9;
        StateDict weights = test::random_state_dict(config, 4);
        for (auto& [name, tensor] : weights) {
          if (name.ends_with("bias")) tensor.normal_();
        }
        const Subsampling subsampling(config.encoder, 9, reader_of(weights).below("pre_encode"));
        const std::vector<int64_t> lengths = {21, 16, 1, 0, 7};
        at::Tensor values = at::randn({5, 9, 21});  // garbage beyond a row's end
        const auto out = subsampling({values, at::tensor(lengths)});
        for (size_t row = 0; row < lengths.size(); ++row) {
          const int64_t count = config.encoder.subsampled(lengths[row]);
          const auto b = static_cast<int64_t>(row);
          EXPECT_EQ(out.lengths[b].item<int64_t>(), count);
          if (count == 0) continue;
          const at::Tensor expected = by_definition(config.encoder, reader_of(weights),
                                                    values[b].narrow(1, 0, lengths[row]));
          EXPECT_EQ(expected.size(0), count);
          EXPECT_LT(largest_difference(out.frames[b].narrow(0, 0, count), expected), 1e-5)
              << causal << depthwise << factor << " row of " << lengths[row];
        }
      }
    }
  }
}

TEST(Subsampling, CausalLengthsAreHalvesAndOne) {
  EncoderConfig e;
  e.causal_downsampling = true;
  for (const auto& [frames, left] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 1}, {2, 2}, {7, 2}, {8, 2}, {15, 3}, {16, 3}, {100, 14}}) {
    EXPECT_EQ(e.subsampled(frames), left) << frames;
  }
}

TEST(Stacking, PutsFramesSideBySide) {
  for (const bool norm : {false, true}) {
    for (const int64_t factor : {1, 3}) {
      ModelConfig config = test::small_config();
      config.features.mel_bins = 4;
      config.encoder.front_end = EncoderConfig::FrontEnd::stacking;
      config.encoder.stacking_norm = norm;
      config.encoder.subsampling_factor = factor;
      StateDict weights = test::random_state_dict(config, 4);
      for (auto& [name, tensor] : weights) {
        if (name.find("pre_encode") != std::string::npos) tensor.normal_();
      }
      const WeightReader reader = reader_of(weights);
      const WeightReader pre = reader.below("pre_encode");
      const Stacking stacking(config.encoder, reader);
      const at::Tensor mel = at::randn({1, 4, 11});
      const auto out = stacking(features_of(mel));
      ASSERT_EQ(out.lengths.item<int64_t>(), 11 / factor);
      ASSERT_EQ(out.frames.size(1), 11 / factor);
      for (int64_t t = 0; t < 11 / factor; ++t) {
        std::vector<at::Tensor> stack;
        for (int64_t i = 0; i < factor; ++i) {
          at::Tensor frame = mel[0].select(1, t * factor + i);
          if (norm) {
            frame = (frame - frame.mean()) / (frame.var(false) + 1e-5).sqrt();
            frame = frame * pre.get("pre_norm.weight") + pre.get("pre_norm.bias");
          }
          stack.push_back(frame);
        }
        const WeightReader out_map = factor == 1 ? pre : pre.below("proj_out");
        const at::Tensor expected =
            4 * at::linear(at::cat(stack), out_map.get("weight"), out_map.get("bias"));
        EXPECT_LT(largest_difference(out.frames[0][t], expected), 1e-4);
      }
      EXPECT_EQ(stacking(features_of(at::randn({1, 4, factor - 1 + (factor == 1)}))).frames.size(1),
                1);
    }
  }
}

TEST(Reduction, PoolingTakesTheGreatestOfWholeGroups) {
  ModelConfig config = test::small_config();
  config.encoder.reduction = EncoderConfig::Reduction::pooling;
  config.encoder.reduction_factor = 2;
  const StateDict weights = test::random_state_dict(config, 4);
  const at::Tensor x = at::randn({2, 7, 16});
  const auto out = Reduction(config.encoder, reader_of(weights))(x, at::tensor({7, 4}, at::kLong));
  EXPECT_TRUE(at::equal(out.lengths, at::tensor({3, 2}, at::kLong)));
  for (int64_t t = 0; t < 3; ++t)
    EXPECT_TRUE(at::equal(out.frames[0][t], at::maximum(x[0][2 * t], x[0][2 * t + 1])));
  EXPECT_EQ(config.encoder.reduced(7), 3);
  // NeMo divides by the whole factor 4 once for each factor of 2 in it, so twice.
  config.encoder.reduction_factor = 4;
  EXPECT_EQ(config.encoder.reduced(33), 2);
  EXPECT_EQ(Reduction(config.encoder, reader_of(weights))(at::randn({1, 33, 16}),
                                                          at::tensor({33}, at::kLong))
                .lengths.item<int64_t>(),
            2);
}

}  // namespace
}  // namespace rtfx
