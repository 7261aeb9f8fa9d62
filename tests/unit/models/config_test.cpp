// Tests values that a checkpoint's YAML and tensors may have, and the errors for wrong ones.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/checkpoint/checkpoint.h"
#include "models/settings/config_reader.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"
#include "tests/support/user_error.h"

namespace rtfx {
namespace {

const std::string kYaml = R"(
sample_rate: 16000
model_defaults: {enc_hidden: 16, tdt_durations: [0, 1, 2, 3, 4]}
encoder: {subsampling: dw_striding, subsampling_factor: 8, d_model: "${model_defaults.enc_hidden}", n_heads: 2}
decoding: {durations: "${model_defaults.tdt_durations}", greedy: {max_symbols: 5}}
)";

ModelConfig parse(const std::string& yaml, const StateDict& weights,
                  std::vector<std::string>& notices) {
  return read_config(YamlView(yaml, "model.nemo"), weights, notices);
}

TEST(ReadConfig, TensorsDecide) {
  std::vector<std::string> notices;
  const ModelConfig expected = test::small_config();
  const ModelConfig config = parse(kYaml, test::random_state_dict(expected, 1), notices);
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(config.kind(), "tdt");
  EXPECT_TRUE(config.has_ctc);
  EXPECT_EQ(config.encoder.layers, 2);
  EXPECT_EQ(config.encoder.conv_kernel, 9);
  EXPECT_EQ(config.prediction.layers, 2);
  EXPECT_EQ(config.vocabulary, 20);
  EXPECT_EQ(config.durations, expected.durations);
  EXPECT_EQ(config.max_symbols, 5);
  EXPECT_TRUE(config.encoder.x_scaling);
}

TEST(ReadConfig, DisagreementIsReported) {
  std::vector<std::string> notices;
  const auto config =
      parse(kYaml + "joint: {jointnet: {joint_hidden: 999}}\naux_ctc: {decoder: {}}\n",
            test::random_state_dict(test::small_config(), 1), notices);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("joint_hidden: the YAML says 999, the tensors 10"), std::string::npos);
  EXPECT_EQ(config.joint_width, 10);
}

TEST(ReadConfig, EveryKindOfModelIsRecognised) {
  for (const bool bias : {true, false}) {
    for (const auto& [factor, depthwise] :
         {std::pair<int64_t, bool>{8, true}, {4, false}, {4, true}}) {
      ModelConfig config = test::small_config();
      config.encoder.use_bias = bias;
      config.encoder.subsampling_factor = factor;
      config.encoder.depthwise_subsampling = depthwise;
      config.features.mel_bins = 128;
      config.durations.clear();
      config.has_ctc = false;
      config.prediction.kind = PredictionConfig::Kind::stateless;
      config.prediction.layers = 0;
      config.prediction.context_size = 2;
      std::vector<std::string> notices;
      const ModelConfig read =
          parse("preprocessor: {features: 128}", test::random_state_dict(config, 1), notices);
      EXPECT_EQ(read.kind(), "rnnt");
      EXPECT_EQ(read.encoder.use_bias, bias);
      EXPECT_EQ(read.encoder.subsampling_factor, factor);
      EXPECT_EQ(read.prediction.context_size, 2);
      EXPECT_EQ(count_parameters(read), count_parameters(config));
    }
  }
  ModelConfig ctc = test::small_config();
  ctc.has_transducer = false;
  ctc.durations.clear();
  std::vector<std::string> notices;
  EXPECT_EQ(parse("{}", test::random_state_dict(ctc, 1), notices).kind(), "ctc");
}

TEST(ReadConfig, BigBlanksFollowTheTokensInReverse) {
  ModelConfig expected = test::small_config();
  expected.durations = {};
  expected.blank_durations = {8, 4, 2, 1};
  const StateDict weights = test::random_state_dict(expected, 1);
  std::vector<std::string> notices;
  for (const std::string yaml :
       {"decoding: {model_type: multiblank, big_blank_durations: [2, 4, 8]}",
        "loss: {loss_name: multiblank_rnnt, multiblank_rnnt_kwargs: {big_blank_durations: [2, 4, "
        "8]}}"}) {
    const ModelConfig config = parse(yaml, weights, notices);
    EXPECT_EQ(config.kind(), "multiblank") << yaml;
    EXPECT_EQ(config.blank_durations, expected.blank_durations) << yaml;
    EXPECT_EQ(config.vocabulary, 20) << yaml;
    EXPECT_EQ(config.labels(), 24) << yaml;
    EXPECT_EQ(count_parameters(config), count_parameters(expected)) << yaml;
  }
  for (const auto& [durations, name] : std::vector<std::pair<std::string, std::string>>{
           {"[2, 4]", "the joint has 3 big blanks, decoding.big_blank_durations lists 2"},
           {"[]", "lists 0"},
           {"[2, 0, 8]", "decoding.big_blank_durations has 0"}}) {
    const std::string yaml =
        "decoding: {model_type: multiblank, big_blank_durations: " + durations + "}";
    EXPECT_HAS(test::user_error([&] { parse(yaml, weights, notices); }), name) << yaml;
  }
}

TEST(ReadConfig, ImpossibleDurationsOfTdtAreErrors) {
  const StateDict weights = test::random_state_dict(test::small_config(), 1);
  std::vector<std::string> notices;
  for (const auto& [yaml, name] : std::vector<std::pair<std::string, std::string>>{
           {"decoding: {durations: [0, 1, -2, 3, 4]}", "decoding.durations has -2"},
           {"decoding: {durations: [0, 1, 2, 3, 4000000000]}", "decoding.durations has 4000000000"},
           {"model_defaults: {tdt_durations: [0, 1, 2, 3, 100001]}",
            "model_defaults.tdt_durations has 100001; 0 to 100000 frames are possible"}}) {
    EXPECT_HAS(test::user_error([&] { parse(yaml, weights, notices); }), name) << yaml;
  }
}

TEST(ReadConfig, MostSymbolsAreReadAsInNeMo) {
  const StateDict weights = test::random_state_dict(test::small_config(), 1);
  std::vector<std::string> notices;
  const auto read = [&](const std::string& greedy) {
    return parse("decoding: {durations: [0, 1, 2, 3, 4], greedy: {" + greedy + "}}", weights,
                 notices);
  };
  for (const auto& [greedy, symbols] :
       std::vector<std::pair<std::string, int64_t>>{{"", 10},
                                                    {"max_symbols: null", 10},
                                                    {"max_symbols: 0", 10},
                                                    {"max_symbols: 1000", 1000},
                                                    {"max_symbols: 2000", 1000},
                                                    {"max_symbols_per_step: 7", 7},
                                                    {"max_symbols: 0, max_symbols_per_step: 7", 7},
                                                    {"max_symbols: 3, max_symbols_per_step: 7", 3}})
    EXPECT_EQ(read(greedy).max_symbols, symbols) << greedy;
  EXPECT_HAS(test::user_error([&] { read("max_symbols: -1"); }),
             "model.nemo: decoding.greedy.max_symbols is -1; set it to 1 or more");
  // A model without a transducer does not use these settings.
  ModelConfig ctc = test::small_config();
  ctc.has_transducer = false;
  ctc.durations.clear();
  EXPECT_EQ(test::user_error([&] {
              parse("decoding: {greedy: {max_symbols: -1}}", test::random_state_dict(ctc, 1),
                    notices);
            }),
            "");
}

TEST(ReadConfig, UnsupportedSettingsAreNamed) {
  const StateDict weights = test::random_state_dict(test::small_config(), 1);
  for (const auto& [yaml, name] : std::vector<std::pair<std::string, std::string>>{
           {"preprocessor: {exact_pad: true}", "preprocessor.exact_pad: true"},
           {"preprocessor: {window: kaiser}", "preprocessor.window: kaiser"},
           {"preprocessor: {mel_norm: null, lowfreq: 50}", "preprocessor.lowfreq: 50"},
           {"preprocessor: {_target_: a.AudioToMFCCPreprocessor}", "AudioToMFCCPreprocessor"},
           {"encoder: {subsampling: vggnet}", "encoder.subsampling: vggnet"},
           {"encoder: {self_attention_model: abs}", "encoder.self_attention_model: abs"},
           {"encoder: {conv_norm_type: group_norm3}", "encoder.conv_norm_type: group_norm3"},
           {"encoder: {conv_norm_type: group_norm}", "encoder.conv_norm_type: group_norm"},
           {"encoder: {conv_context_size: [4, 5]}", "encoder.conv_context_size does not fit"},
           {"encoder: {conv_context_size: left}", "encoder.conv_context_size: left"},
           {"encoder: {att_context_style: wild}", "encoder.att_context_style: wild"},
           {"encoder: {att_context_size: [1, 2, 3]}", "encoder.att_context_size: no such"},
           {"encoder: {reduction: pooling, reduction_factor: 3}", "reduction_factor is 3"},
           {"encoder: {reduction: pooling, reduction_factor: 2, reduction_position: 2}",
            "reduction_position is 2"},
           {"decoder: {blank_as_pad: false}", "decoder.blank_as_pad"},
           {"sample_rate: 8000", "sample_rate: 8000"},
           {"encoder: {n_layers: {a: 1}}", "encoder.n_layers is not an integer"},
           {"a: [", "not YAML"},
           {"decoding: {durations: [0, 1]}", "5 duration outputs"}}) {
    std::vector<std::string> notices;
    const std::string base =
        yaml.find("durations") == std::string::npos ? "\ndecoding: {durations: [0,1,2,3,4]}" : "";
    EXPECT_HAS(test::user_error([&] { parse(yaml + base, weights, notices); }), name) << yaml;
  }
}

/// NeMo saves these keys with empty values. Only values that change its result are told.
TEST(ReadConfig, SettingsOfNemosSearchThatRtfxIgnoresAreTold) {
  const StateDict weights = test::random_state_dict(test::small_config(), 1);
  const auto told = [&](const std::string& decoding) {
    std::vector<std::string> notices;
    parse("decoding: {durations: [0, 1, 2, 3, 4], " + decoding + "}", weights, notices);
    return notices;
  };
  const std::string empty =
      "boosting_tree: {model_path: null, key_phrases_file: null, key_phrases_list: null, "
      "key_phrase_items_list: [], context_score: 1.0, source_lang: en}, ngram_lm_model: null, "
      "ngram_lm_alpha: 0.0, boosting_tree_alpha: 0.0";
  const std::string phrases = "boosting_tree: {key_phrases_list: [word]}";
  for (const std::string& silent :
       {"strategy: greedy_batch, greedy: {" + empty + "}, beam: {" + empty + "}",
        std::string("strategy: greedy"), "greedy: {" + phrases + ", boosting_tree_alpha: 0.0}",
        std::string("greedy: {ngram_lm_model: lm.nemo}"),  // its weight is 0
        "strategy: greedy_batch, beam: {" + phrases + ", boosting_tree_alpha: 1.0}"})
    EXPECT_EQ(told(silent), std::vector<std::string>{}) << silent;
  EXPECT_EQ(told("strategy: malsd_batch, beam: {" + empty + "}"),
            std::vector<std::string>{
                "decoding.strategy: malsd_batch is ignored, choose a decoder of rtfx instead"});
  EXPECT_EQ(told("strategy: greedy_batch, greedy: {ngram_lm_model: lm.nemo, ngram_lm_alpha: 0.3, " +
                 phrases + ", boosting_tree_alpha: 1.0}"),
            (std::vector<std::string>{"decoding.greedy.ngram_lm_model is ignored, use the option "
                                      "'lm' of a decoder instead",
                                      "decoding.greedy.boosting_tree is ignored, use the option "
                                      "'boost' of a decoder instead"}));
  EXPECT_EQ(
      told("strategy: maes, beam: {ngram_lm_model: lm.bin}"),  // without a weight, NeMo takes 1
      (std::vector<std::string>{
          "decoding.strategy: maes is ignored, choose a decoder of rtfx instead",
          "decoding.beam.ngram_lm_model is ignored, use the option 'lm' of a decoder instead"}));

  // A hybrid model has another section for its CTC head.
  std::vector<std::string> notices;
  parse("decoding: {durations: [0, 1, 2, 3, 4]}\naux_ctc: {decoding: {strategy: beam_batch}}",
        weights, notices);
  EXPECT_EQ(notices, std::vector<std::string>{"aux_ctc.decoding.strategy: beam_batch is ignored, "
                                              "choose a decoder of rtfx instead"});
}

TEST(ReadConfig, DamagedSizesAreErrors) {
  const StateDict weights = test::random_state_dict(test::small_config(), 1);
  for (const std::string setting :
       {"window_size: 0", "window_size: -1", "window_size: .nan", "window_size: 1e30",
        "window_stride: 0", "window_stride: 1e-9", "n_window_stride: 0", "n_fft: 0", "n_fft: -512",
        "n_fft: 399", "n_fft: 256", "n_fft: 1000000000", "features: 0", "features: -1",
        "features: 1000000000", "preemph: .inf", "mag_power: .nan",
        "normalize: {fixed_mean: [1], fixed_std: [1]}"}) {
    std::vector<std::string> notices;
    EXPECT_HAS(test::user_error([&] {
                 parse("decoding: {durations: [0,1,2,3,4]}\npreprocessor: {" + setting + "}",
                       weights, notices);
               }),
               "preprocessor.")
        << setting;
  }
  for (const auto& [name, tensor] : std::vector<std::pair<std::string, at::Tensor>>{
           {"encoder.layers.0.self_attn.pos_bias_u", at::zeros({0, 8})},
           {"encoder.layers.0.self_attn.pos_bias_u", at::zeros({3, 8})},
           {"encoder.layers.0.self_attn.pos_bias_u", at::zeros({16})},
           {"encoder.layers.0.feed_forward1.linear1.weight", at::zeros({64, 0})},
           {"encoder.layers.0.conv.depthwise_conv.weight", at::zeros({16, 1, 0})},
           {"encoder.layers.0.conv.depthwise_conv.weight", at::zeros({16, 1, 8})},
           {"encoder.pre_encode.conv.0.weight", at::zeros({})},
           {"preprocessor.featurizer.fb", at::zeros({1, 0, 257})},
           {"preprocessor.featurizer.fb", at::zeros({257})},
           {"preprocessor.featurizer.fb", at::zeros({1, 80, 300})},
           {"preprocessor.featurizer.window", at::zeros({300})},
           {"joint.enc.weight", at::zeros({0, 16})},
           {"joint.joint_net.weight", at::zeros({4})},
           {"decoder.prediction.embed.weight", at::zeros({1, 12})},
           {"ctc.weight", at::zeros({21, 16})}}) {
    StateDict damaged = weights;
    damaged[name] = tensor;
    std::vector<std::string> notices;
    EXPECT_NE(test::user_error([&] {
                canonical_state_dict(
                    damaged, parse("decoding: {durations: [0,1,2,3,4]}", damaged, notices), "m");
              }),
              "")
        << name;
  }
}

TEST(ReadConfig, ModelsOfOtherKindsAreCalledWhatTheyAre) {
  const StateDict weights = test::random_state_dict(test::small_config(), 1);
  for (const auto& [yaml, tensor, name] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"target: a.EncDecMultiTaskModel", "", "an attention encoder-decoder"},
           {"target: a.EncDecMultiTalkerRNNTBPEModel", "", "a multi-talker model"},
           {"target: a.EncDecSpeakerLabelModel", "", "a speaker recognition model"},
           {"target: a.SpeechEncDecSelfSupervisedModel", "", "a self-supervised encoder"},
           {"target: a.EncDecClassificationModel", "", "a classification model"},
           {"a: 1", "joint.blank_pred.0.weight", "(HAT)"},
           {"joint: {_target_: a.HATJoint}", "", "(HAT)"},
           {"a: 1", "encoder.layers.0.adapter_layer.x.weight", "adapter modules"},
           {"a: 1", "encoder.layers.0.linear._packed_params.dtype", "a quantised export"},
           {"encoder: {_target_: a.ConvASREncoder}", "", "unsupported encoder ConvASREncoder"},
           {"encoder: {_target_: a.TransformerEncoder}", "", "encoder TransformerEncoder"}}) {
    StateDict all = weights;
    if (!tensor.empty()) all[tensor] = at::zeros({1});
    std::vector<std::string> notices;
    EXPECT_HAS(test::user_error([&] { parse(yaml, all, notices); }), name) << yaml;
  }
  StateDict integers = weights;
  integers["encoder.layers.0.feed_forward1.linear1.weight"] = at::zeros({64, 16}, at::kChar);
  StateDict headless;
  for (const auto& [name, tensor] : weights) {
    if (name.starts_with("encoder.")) headless[name] = tensor;
  }
  std::vector<std::string> notices;
  EXPECT_HAS(test::user_error([&] { parse("{}", integers, notices); }), "a quantised export");
  EXPECT_HAS(test::user_error([&] { parse("{}", headless, notices); }), "neither a CTC head nor");
}

TEST(CanonicalStateDict, NamesWhatIsMissingMisshapenOrUnknown) {
  const ModelConfig config = test::small_config();
  const StateDict good = test::random_state_dict(config, 1);
  EXPECT_EQ(canonical_state_dict(good, config, "m").size(), good.size());
  StateDict missing = good;
  missing.erase("encoder.layers.1.norm_out.bias");
  EXPECT_HAS(test::user_error([&] { canonical_state_dict(missing, config, "m"); }),
             "encoder.layers.1.norm_out.bias' is missing");
  StateDict misshapen = good;
  misshapen["joint.enc.bias"] = at::zeros({3});
  EXPECT_HAS(test::user_error([&] { canonical_state_dict(misshapen, config, "m"); }),
             "joint.enc.bias' has shape [3], expected [10]");
  StateDict unknown = good;
  unknown["encoder.out_proj.weight"] = at::zeros({3});
  EXPECT_HAS(test::user_error([&] { canonical_state_dict(unknown, config, "m"); }),
             "encoder.out_proj.weight");
  StateDict unused = good;
  unused["encoder.layers.0.conv.batch_norm.num_batches_tracked"] = at::zeros({});
  EXPECT_EQ(canonical_state_dict(unused, config, "m").size(), good.size());
}

ModelConfig parakeet(int64_t width, int64_t layers, int64_t mels, bool bias, int64_t vocabulary,
                     int64_t lstm) {
  ModelConfig config;
  config.features.mel_bins = mels;
  config.encoder.width = width;
  config.encoder.layers = layers;
  config.encoder.heads = 8;
  config.encoder.conv_kernel = 9;
  config.encoder.use_bias = bias;
  config.vocabulary = vocabulary;
  config.has_ctc = lstm == 0;
  config.has_transducer = lstm > 0;
  config.prediction.width = config.joint_width = 640;
  config.prediction.layers = lstm;
  return config;
}

TEST(CountParameters, EqualsThePublishedModels) {
  ModelConfig tdt_v2 = parakeet(1024, 24, 128, false, 1024, 2);
  tdt_v2.durations = {0, 1, 2, 3, 4};
  EXPECT_EQ(count_parameters(tdt_v2), 617825926);
  tdt_v2.vocabulary = 8192;
  EXPECT_EQ(count_parameters(tdt_v2), 627008134);
  EXPECT_EQ(count_parameters(parakeet(1024, 24, 80, true, 1024, 0)), 608799745);
  EXPECT_EQ(count_parameters(parakeet(1024, 24, 80, true, 1024, 2)), 616692225);
  EXPECT_EQ(count_parameters(parakeet(1024, 42, 80, true, 1024, 0)), 1062540289);
  EXPECT_EQ(count_parameters(parakeet(1024, 42, 80, true, 1024, 2)), 1070432769);
  EXPECT_EQ(count_parameters(parakeet(512, 17, 80, true, 1024, 1)), 114095617);
  ModelConfig conformer = parakeet(176, 16, 80, true, 1024, 0);
  conformer.encoder.conv_kernel = 31;
  conformer.encoder.subsampling_factor = 4;
  conformer.encoder.depthwise_subsampling = false;
  conformer.encoder.subsampling_channels = 176;
  conformer.encoder.heads = 4;
  EXPECT_EQ(count_parameters(conformer), 13154033);
}

}  // namespace
}  // namespace rtfx
