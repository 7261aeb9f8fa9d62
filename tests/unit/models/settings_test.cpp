// Tests settings of the encoder and of the features that NeMo's YAML gives in its own words.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/settings/config_reader.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using Norm = EncoderConfig::ConvolutionNorm;
using Normalization = FeatureConfig::Normalization;

/// Returns the configuration of a CTC model with this encoder and `yaml`.
ModelConfig read(const EncoderConfig& encoder, const std::string& yaml) {
  ModelConfig config = test::small_config();
  config.encoder = encoder;
  config.has_transducer = false;
  config.durations.clear();
  const StateDict weights = test::random_state_dict(config, 1);
  std::vector<std::string> notices;
  const ModelConfig result = read_config(YamlView(yaml, "model.nemo"), weights, notices);
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(expected_tensors(result), expected_tensors(config)) << yaml;
  return result;
}

FeatureConfig features(const std::string& yaml) {
  return read(test::small_config().encoder, "preprocessor: {" + yaml + "}").features;
}

TEST(FeatureSettings, Normalization) {
  EXPECT_EQ(features("features: 80").normalization, Normalization::per_feature);
  EXPECT_EQ(features("normalize: all_features").normalization, Normalization::all_features);
  for (const std::string none : {"NA", "null", "~", "false", "anything"})
    EXPECT_EQ(features("normalize: " + none).normalization, Normalization::none) << none;
  std::string list = "[1.5";
  for (int i = 1; i < 80; ++i) list += ", 2";
  list += "]";
  const FeatureConfig f =
      features("normalize: {fixed_mean: " + list + ", fixed_std: " + list + "}");
  EXPECT_EQ(f.normalization, Normalization::fixed);
  EXPECT_EQ(f.fixed_mean.front(), 1.5);
  EXPECT_EQ(f.fixed_deviation.back(), 2);
}

TEST(FeatureSettings, InterpolationsLeadToTheirKeys) {
  const auto normalization = [](const std::string& yaml) {
    return read(test::small_config().encoder, yaml).features.normalization;
  };
  for (const std::string yaml :
       {"kind: all_features\npreprocessor: {normalize: \"${kind}\"}",
        "preprocessor: {kind: all_features, normalize: \"${.kind}\"}",
        "common: {kind: all_features}\npreprocessor: {normalize: \"${..common.kind}\"}",
        "common: {kind: \"${.other}\", other: all_features}\n"
        "preprocessor: {normalize: \"${common.kind}\"}",
        "common: {normalize: all_features}\npreprocessor: \"${common}\""})
    EXPECT_EQ(normalization(yaml), Normalization::all_features) << yaml;
  EXPECT_EQ(normalization("kind: null\npreprocessor: {normalize: \"${kind}\"}"),
            Normalization::none);
  EXPECT_EQ(normalization("trainer: {root: \"${oc.env:HOME}\"}"), Normalization::per_feature)
      << "a key that is not read";
}

TEST(FeatureSettings, InterpolationsThatLeadNowhereAreErrors) {
  const auto message = [](const std::string& value) {
    return test::user_error([&] { features("normalize: \"" + value + "\""); });
  };
  for (const std::string value : {"${nowhere.x}", "${.kind}", "${oc.env:HOME}", "${}", "${.}"})
    EXPECT_HAS(message(value), "preprocessor.normalize is " + value + ", which names no key");
  EXPECT_HAS(message("${preprocessor.normalize}"), "run in a circle");
}

TEST(FeatureSettings, SizesAndNumbers) {
  const FeatureConfig f = features(
      "window_size: 0.02, n_window_stride: 200, window: hamming, mag_power: 1.0, preemph: null, "
      "log_zero_guard_type: clamp, log_zero_guard_value: tiny, n_fft: null");
  EXPECT_EQ(f.window, 320);
  EXPECT_EQ(f.hop, 200);
  EXPECT_EQ(f.n_fft, 512);  // the next power of two
  EXPECT_EQ(f.window_shape, "hamming");
  EXPECT_EQ(f.magnitude_power, 1);
  EXPECT_EQ(f.preemphasis, 0);
  EXPECT_TRUE(f.log_clamp);
  EXPECT_EQ(f.log_guard, std::numeric_limits<float>::min());
  EXPECT_EQ(features("features: 80").window, 320);  // NeMo's class has 0.02 s
  EXPECT_EQ(features("preemph: 0.9, log_zero_guard_value: 1e-5").preemphasis, 0.9);
  EXPECT_EQ(features("window_size: 0.0231").window, 369);  // NeMo cuts 369.6
  EXPECT_EQ(features("log_zero_guard_value: eps").log_guard, 0x1p-23);
}

TEST(EncoderSettings, FrontEnds) {
  EncoderConfig e = test::small_config().encoder;
  e.causal_downsampling = true;
  EXPECT_TRUE(read(e, "encoder: {causal_downsampling: true}").encoder.causal_downsampling);
  e = test::small_config().encoder;
  e.front_end = EncoderConfig::FrontEnd::stacking;
  e.subsampling_factor = 4;
  EXPECT_EQ(read(e, "encoder: {subsampling: stacking}").encoder.subsampling_factor, 4);
  e.stacking_norm = true;
  EXPECT_TRUE(read(e, "encoder: {subsampling: stacking_norm}").encoder.stacking_norm);
  e.stacking_norm = false;
  e.subsampling_factor = 1;
  EXPECT_EQ(read(e, "encoder: {subsampling_factor: 1}").encoder.factor(), 1);
  e = test::small_config().encoder;
  e.output_width = 20;
  EXPECT_EQ(read(e, "encoder: {feat_out: 20}").encoder.frame_width(), 20);
  e.output_width = 0;
  e.reduction = EncoderConfig::Reduction::striding;
  e.reduction_factor = 2;
  const ModelConfig reduced =
      read(e, "encoder: {reduction: striding, reduction_factor: 2, reduction_position: 1}");
  EXPECT_EQ(reduced.encoder.reduction_position, 1);
  EXPECT_EQ(reduced.frame_seconds(), 0.16);
  EXPECT_EQ(read(test::small_config().encoder, "encoder: {reduction: pooling}").encoder.reduction,
            EncoderConfig::Reduction::none);  // the factor is 1
}

TEST(EncoderSettings, Convolution) {
  EncoderConfig e = test::small_config().encoder;
  for (const auto& [setting, right] : std::vector<std::pair<std::string, int64_t>>{
           {"null", 4}, {"causal", 0}, {"[6, 2]", 2}, {"[4, 4]", 4}}) {
    EXPECT_EQ(read(e, "encoder: {conv_context_size: " + setting + "}").encoder.conv_right_context,
              right);
  }
  for (const auto& [name, norm] :
       std::vector<std::pair<std::string, Norm>>{{"layer_norm", Norm::layer},
                                                 {"group_norm4", Norm::group},
                                                 {"instance_norm", Norm::instance},
                                                 {"fused_batch_norm", Norm::fused_batch}}) {
    e.conv_norm = norm;
    const ModelConfig config = read(e, "encoder: {conv_norm_type: " + name + "}");
    EXPECT_EQ(config.encoder.conv_norm, norm);
    EXPECT_EQ(config.encoder.norm_groups, norm == Norm::group ? 4 : 1);
  }
}

TEST(EncoderSettings, Attention) {
  EncoderConfig e = test::small_config().encoder;
  e.positions = EncoderConfig::Positions::absolute;
  EXPECT_EQ(read(e, "encoder: {self_attention_model: abs_pos, n_heads: 8}").encoder.heads, 8);
  e = test::small_config().encoder;
  e.global_attn_separate = true;
  const EncoderConfig local =
      read(e,
           "encoder: {self_attention_model: rel_pos_local_attn, att_context_size: [16, 8], "
           "global_tokens: 2, global_tokens_spacing: 3, global_attn_separate: true}")
          .encoder;
  EXPECT_EQ(local.left_context, 16);
  EXPECT_EQ(local.right_context, 8);
  EXPECT_EQ(local.global_tokens, 2);
  EXPECT_EQ(local.global_tokens_spacing, 3);
}

TEST(EncoderSettings, TheFirstContextIsTheDefault) {
  const EncoderConfig plain = test::small_config().encoder;
  const EncoderConfig e =
      read(plain,
           "encoder: {att_context_style: chunked_limited, att_context_size: [[70, 13], [70, 1]]}")
          .encoder;
  EXPECT_EQ(e.contexts, (std::vector<std::vector<int64_t>>{{70, 13}, {70, 1}}));
  EXPECT_EQ(e.context, e.contexts.front());
  EXPECT_EQ(e.chunk, 14);
  const EncoderConfig all =
      read(plain,
           "encoder: {att_context_style: chunked_limited_with_rc, att_context_size: [9, 9, 9], "
           "att_chunk_context_size: [[70], [1, 2], [0, 3]]}")
          .encoder;
  EXPECT_EQ(all.context, (std::vector<int64_t>{-1, -1, -1}));
  EXPECT_EQ(all.contexts.size(), 5u);
  EXPECT_EQ(all.contexts.back(), (std::vector<int64_t>{70, 2, 3}));
  EXPECT_EQ(all.left_context, -1);
  EXPECT_EQ(read(plain, "{}").encoder.contexts.size(), 1u);
}

}  // namespace
}  // namespace rtfx
