// Compares the fused encoder with the reference encoder in float32. It deviates no more than the
// reference encoder in the same 16-bit type.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/encoder/fused/fused_encoder.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

const at::Device kGpu(at::kCUDA, 0);

/// Returns random log-mel features of the given lengths, which are 0 after the end of a row.
Features features_of(const std::vector<int64_t>& lengths, int64_t frames, bool known) {
  const auto on_gpu = at::TensorOptions(kGpu);
  const auto rows = static_cast<int64_t>(lengths.size());
  Features f{at::randn({rows, 80, frames}, on_gpu), at::tensor(lengths, at::kLong).to(kGpu)};
  const at::Tensor valid =
      at::arange(frames, f.lengths.options()).unsqueeze(0) < f.lengths.unsqueeze(1);
  f.values.mul_(valid.unsqueeze(1));
  if (known) f.host_lengths = lengths;
  return f;
}

/// Returns the valid frames of all rows as one tensor [frames, width] in float32.
at::Tensor valid_frames(const Encoded& encoded) {
  std::vector<at::Tensor> rows;
  for (int64_t b = 0; b < encoded.frames.size(0); ++b)
    rows.push_back(encoded.frames[b].narrow(0, 0, encoded.lengths[b].item<int64_t>()));
  return at::cat(rows).to(at::kFloat);
}

struct Deviation {
  explicit Deviation(const std::vector<at::Tensor>& differences) {
    const at::Tensor all = at::cat(differences);
    count = all.numel();
    if (count == 0) return;
    mean = all.mean().item<double>();
    largest = all.max().item<double>();
  }

  int64_t count = 0;
  double mean = 0, largest = 0;
};

class FusedEncoderTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
    at::manual_seed(3);
  }

  /// Three encoders with the same weights.
  struct Encoders {
    Encoder exact, plain, fused;
  };
  Encoders encoders(const ModelConfig& config) const {
    const StateDict weights = test::random_state_dict(config, 5);
    const auto make = [&](at::ScalarType dtype, EncoderForm form, bool eight_bits = false) {
      return Encoder(config.encoder, 80, weights, kGpu, dtype, {form, eight_bits});
    };
    return {make(at::kFloat, EncoderForm::reference), make(GetParam(), EncoderForm::reference),
            make(GetParam(), EncoderForm::fused)};
  }

  /// Returns the absolute differences of all values in valid frames.
  static at::Tensor differences(const Encoded& found, const Encoded& expected) {
    EXPECT_EQ(found.frames.sizes(), expected.frames.sizes());
    EXPECT_TRUE(at::equal(found.lengths, expected.lengths));
    return (valid_frames(found) - valid_frames(expected)).abs().flatten();
  }

  /// Expects that the fused encoder deviates no more than the plain one, over all batches together.
  void expect_no_worse(const Encoders& of, const std::vector<Features>& batches,
                       const std::string& what) {
    std::vector<at::Tensor> of_plain, of_fused;
    for (const Features& features : batches) {
      const Encoded exact = of.exact(features);
      of_plain.push_back(differences(of.plain(features), exact));
      of_fused.push_back(differences(of.fused(features), exact));
    }
    const Deviation plain(of_plain), fused(of_fused);
    EXPECT_TRUE(std::isfinite(fused.largest)) << what;
    // The mean of few deviations varies, so the ratio may exceed its bound by three standard
    // deviations.
    const double slack = plain.count > 0 ? 3 / std::sqrt(static_cast<double>(plain.count)) : 0;
    EXPECT_LE(fused.mean, (1.1 + slack) * plain.mean) << what;
    EXPECT_LE(fused.largest, 1.5 * plain.largest) << what;
  }

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

ModelConfig wider(int64_t width, int64_t heads) {
  ModelConfig config = test::small_config();
  config.encoder.width = width;
  config.encoder.heads = heads;
  config.encoder.subsampling_channels = 64;
  return config;
}

TEST_P(FusedEncoderTest, RaggedBatches) {
  for (const auto& [width, heads] :
       {std::pair{1024, 8}, std::pair{512, 8}, std::pair{176, 4}, std::pair{144, 4}}) {
    const Encoders of = encoders(wider(width, heads));
    for (const bool known : {true, false}) {
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{700, 1, 0, 655, 512, 8, 9}, {1300, 1299}, {1}, {0}, {64}}) {
        const int64_t frames = std::max<int64_t>(1, lengths.front());
        // The largest of few deviations varies, so several batches of short utterances are
        // compared.
        std::vector<Features> batches;
        for (int i = 0; i < (frames > 64 ? 1 : 16); ++i)
          batches.push_back(features_of(lengths, frames, known));
        expect_no_worse(of, batches,
                        std::to_string(width) + " wide, " + std::to_string(frames) + " frames");
      }
    }
  }
}

TEST_P(FusedEncoderTest, EveryKindThatItSupports) {
  int supported = 0;
  for (const test::Variant& variant : test::variants()) {
    ModelConfig config = wider(64, 4);
    variant.change(config);
    if (!FusedEncoder::missing(config.encoder).empty()) continue;
    ++supported;
    expect_no_worse(encoders(config), {features_of({500, 333, 0, 1, 17}, 500, true)}, variant.name);
  }
  EXPECT_GE(supported, 8);
}

/// Runs every kernel once. The test is small enough for compute-sanitizer.
TEST_P(FusedEncoderTest, EveryKernelOnce) {
  for (const auto& [width, heads] : {std::pair{256, 2}, std::pair{128, 2}, std::pair{176, 4}}) {
    for (const bool streaming : {false, true}) {
      ModelConfig config = wider(width, heads);
      config.encoder.layers = 1;
      config.encoder.subsampling_channels = 16;
      if (streaming) {
        config.encoder.conv_norm = EncoderConfig::ConvolutionNorm::layer;
        config.encoder.causal_downsampling = true;
        config.encoder.conv_right_context = 0;
        config.encoder.left_context = config.encoder.right_context = 5;
      }
      const StateDict weights = test::random_state_dict(config, 5);
      const Features features = features_of({300, 0, 130}, 300, true);
      for (const bool eight_bits : {false, true}) {
        const Encoder fused(config.encoder, 80, weights, kGpu, GetParam(),
                            {EncoderForm::fused, eight_bits});
        EXPECT_TRUE(valid_frames(fused(features)).isfinite().all().item<bool>());
      }
    }
  }
}

TEST_P(FusedEncoderTest, RowsDoNotDependOnTheirBatch) {
  const Encoders of = encoders(wider(512, 8));
  const Features together = features_of({900, 400, 77}, 900, true);
  const Encoded all = of.fused(together);
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t length = together.host_lengths[static_cast<size_t>(b)];
    const Encoded alone =
        of.fused({together.values.narrow(0, b, 1).narrow(2, 0, length).contiguous(),
                  together.lengths.narrow(0, b, 1),
                  {length}});
    const at::Tensor of_all = all.frames[b].narrow(0, 0, alone.frames.size(1)).to(at::kFloat);
    // Matrix products of another size may be rounded differently.
    EXPECT_LE((of_all - alone.frames[0].to(at::kFloat)).abs().max().item<double>(), 0.2) << b;
  }
}

TEST_P(FusedEncoderTest, HalfAnHour) {
  ModelConfig config = wider(128, 4);
  const Encoders whole = encoders(config);
  expect_no_worse(whole, {features_of({180000, 30000}, 180000, true)}, "all frames in reach");
  config.encoder.left_context = config.encoder.right_context = 128;
  const Encoders limited = encoders(config);
  expect_no_worse(limited, {features_of({180000, 30000}, 180000, true)}, "256 frames in reach");
}

TEST_P(FusedEncoderTest, EightBitsStayClose) {
  const ModelConfig config = wider(1024, 8);
  const StateDict weights = test::random_state_dict(config, 5);
  const Encoder exact(config.encoder, 80, weights, kGpu, at::kFloat, {EncoderForm::reference});
  const Encoder eight(config.encoder, 80, weights, kGpu, GetParam(), {EncoderForm::fused, true});
  const Features features = features_of({700, 655, 1, 0}, 700, true);
  const Encoded expected = exact(features);
  const double spread = valid_frames(expected).std().item<double>();
  const Deviation found({differences(eight(features), expected)});
  EXPECT_LT(found.mean, 0.1 * spread);
  EXPECT_GT(found.mean, 0);
}

INSTANTIATE_TEST_SUITE_P(Types, FusedEncoderTest, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(FusedFeatures, EqualThoseOfTheOperators) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const c10::InferenceMode guard;
  at::manual_seed(4);
  for (const bool clamp : {false, true}) {
    FeatureConfig config;
    config.log_clamp = clamp;
    config.mel_bins = clamp ? 128 : 80;
    const FeatureExtractor plain(config, {}, kGpu, /*fused=*/false), fused(config, {}, kGpu);
    const std::vector<int64_t> lengths = {48123, 160, 0, 31999, 320, 159, 48000};
    at::Tensor audio = at::randn({7, 48123}, at::TensorOptions(kGpu)) * 0.1;
    for (size_t b = 0; b < lengths.size(); ++b)  // audio after the end is not read
      audio[static_cast<int64_t>(b)].slice(0, lengths[b]).fill_(std::nan(""));
    const at::Tensor on_gpu = at::tensor(lengths, at::kLong).to(kGpu);
    const Features expected = plain(audio, on_gpu), found = fused(audio, on_gpu);
    EXPECT_TRUE(at::equal(found.lengths, expected.lengths));
    ASSERT_EQ(found.values.sizes(), expected.values.sizes());
    EXPECT_LT((found.values - expected.values).abs().max().item<double>(), 2e-3);
    EXPECT_LT((found.values - expected.values).abs().mean().item<double>(), 1e-5);
  }
}

TEST(FusedEncoder, RefusesWhatItCannotDo) {
  ModelConfig config = wider(64, 4);
  const StateDict weights = test::random_state_dict(config, 5);
  const auto make = [&](at::Device device, at::ScalarType dtype, const EncoderOptions& options) {
    return Encoder(config.encoder, 80, weights, device, dtype, options);
  };
  EXPECT_THROW(make(at::kCPU, at::kBFloat16, {EncoderForm::fused}), UserError);
  EXPECT_THROW(make(at::kCPU, at::kFloat, {EncoderForm::automatic, true}), UserError);
  EXPECT_FALSE(make(at::kCPU, at::kBFloat16, {}).is_fused());
  config.encoder.global_tokens = 2;
  EXPECT_FALSE(FusedEncoder::missing(config.encoder).empty());
}

}  // namespace
}  // namespace rtfx
