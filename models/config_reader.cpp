#include "models/config_reader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"

namespace rtfx {
namespace {

/// One reading of a checkpoint: the YAML, the tensors and where they disagree.
class Reader {
 public:
  Reader(const YamlView& yaml, const StateDict& weights, std::vector<std::string>& notices)
      : yaml_(yaml), weights_(weights), notices_(notices) {}

  ModelConfig read() {
    config_.target = yaml_.text("target").value_or("");
    check_target();
    read_heads();
    read_features();
    read_encoder();
    if (config_.has_transducer) read_transducer();
    if (config_.has_ctc) read_vocabulary(tensor("ctc.weight").size(0) - 1, "the CTC head");
    config_.max_symbols = yaml_.integer("decoding.greedy.max_symbols").value_or(10);
    return config_;
  }

 private:
  bool has(const std::string& name) const { return weights_.contains(name); }

  const at::Tensor& tensor(const std::string& name) const {
    const auto found = weights_.find(name);
    if (found == weights_.end()) {
      throw UserError(yaml_.where(), fmt::format("tensor '{}' is missing", name),
                      "not a CTC, RNN-T or TDT model with a Conformer encoder, or incomplete");
    }
    return found->second;
  }

  /// The tensor's value; a different one in the YAML is reported.
  int64_t decide(const std::string& path, int64_t from_tensors) {
    const auto from_yaml = yaml_.integer(path);
    if (from_yaml && *from_yaml != from_tensors) {
      notices_.push_back(fmt::format("{}: the YAML says {}, the tensors {}; the tensors decide",
                                     path, *from_yaml, from_tensors));
    }
    return from_tensors;
  }

  int64_t count(const std::string& prefix, const std::string& suffix) const {
    int64_t n = 0;
    while (has(fmt::format("{}{}{}", prefix, n, suffix))) ++n;
    return n;
  }

  void check_target() const {
    if (config_.target.find("MultiTask") != std::string::npos || yaml_.has("transf_decoder")) {
      throw UserError(yaml_.where(), "unsupported model class " + config_.target,
                      "rtfx decodes CTC, RNN-T and TDT models");
    }
  }

  void read_heads() {
    config_.has_ctc = has("ctc.weight");
    config_.has_transducer = has("joint.joint_net.weight");
    if (!config_.has_ctc && !config_.has_transducer) {
      throw UserError(yaml_.where(), "neither a CTC head nor a joint network among the tensors",
                      "rtfx decodes CTC, RNN-T and TDT models");
    }
    if (yaml_.has("aux_ctc") && config_.has_transducer && !config_.has_ctc) {
      notices_.push_back("aux_ctc: the YAML describes a CTC head, the file holds none");
    }
  }

  void read_features() {
    const std::string p = "preprocessor.";
    yaml_.require(p + "normalize", {"per_feature"});
    yaml_.require(p + "window", {"hann"});
    yaml_.require(p + "frame_splicing", {"1"});
    yaml_.require(p + "log", {"true", "True"});
    yaml_.require(p + "mag_power", {"2.0", "2"});
    yaml_.require(p + "preemph", {"0.97"});
    yaml_.require(p + "exact_pad", {"false", "False"});
    yaml_.require(p + "lowfreq", {"0"});
    yaml_.require(p + "log_zero_guard_type", {"add"});
    yaml_.require(p + "mel_norm", {"slaney"});
    yaml_.require("sample_rate", {"16000"});
    yaml_.require(p + "sample_rate", {"16000"});
    FeatureConfig& f = config_.features;
    f.n_fft = yaml_.integer(p + "n_fft").value_or(512);
    f.window = samples(p + "window_size", 0.025);
    f.hop = samples(p + "window_stride", 0.01);
    f.mel_bins = yaml_.integer(p + "features").value_or(80);
    if (has("preprocessor.featurizer.fb")) {
      f.mel_bins = decide(p + "features", tensor("preprocessor.featurizer.fb").size(-2));
    }
  }

  int64_t samples(const std::string& path, double seconds) const {
    return std::llround(yaml_.number(path).value_or(seconds) *
                        static_cast<double>(config_.features.sample_rate));
  }

  void read_encoder() {
    const std::string p = "encoder.";
    yaml_.require(p + "subsampling", {"dw_striding", "striding"});
    yaml_.require(p + "causal_downsampling", {"false", "False"});
    yaml_.require(p + "reduction", {});
    yaml_.require(p + "self_attention_model", {"rel_pos", "rel_pos_local_attn"});
    yaml_.require(p + "global_tokens", {"0"});
    yaml_.require(p + "att_context_style", {"regular"});
    yaml_.require(p + "conv_norm_type", {"batch_norm"});
    EncoderConfig& e = config_.encoder;
    const std::string layer = "encoder.layers.0.";
    e.layers = decide(p + "n_layers", count("encoder.layers.", ".norm_out.weight"));
    const at::Tensor& linear = tensor(layer + "feed_forward1.linear1.weight");
    e.width = decide(p + "d_model", linear.size(1));
    e.feed_forward_expansion = decide(p + "ff_expansion_factor", linear.size(0) / e.width);
    e.heads = decide(p + "n_heads", tensor(layer + "self_attn.pos_bias_u").size(0));
    e.conv_kernel =
        decide(p + "conv_kernel_size", tensor(layer + "conv.depthwise_conv.weight").size(2));
    e.use_bias = has(layer + "feed_forward1.linear1.bias");
    if (const auto stated = yaml_.boolean(p + "use_bias"); stated && *stated != e.use_bias) {
      notices_.push_back(
          fmt::format("encoder.use_bias: the YAML says {}, the tensors {}", *stated, e.use_bias));
    }
    e.x_scaling = yaml_.boolean(p + "xscaling").value_or(true);
    read_subsampling(e);
    read_contexts(e);
  }

  void read_subsampling(EncoderConfig& e) {
    const std::string conv = "encoder.pre_encode.conv.";
    e.depthwise_subsampling = has(conv + "3.weight");
    e.subsampling_channels = tensor(conv + "0.weight").size(0);
    int64_t strided = 1;
    for (int64_t i = 2; has(conv + std::to_string(i) + ".weight");
         i += e.depthwise_subsampling ? 3 : 2)
      ++strided;
    e.subsampling_factor = decide("encoder.subsampling_factor", int64_t{1} << strided);
  }

  void read_contexts(EncoderConfig& e) const {
    if (const auto context = yaml_.integers("encoder.att_context_size")) {
      if (context->size() != 2) {
        throw UserError(yaml_.where(), "unsupported setting encoder.att_context_size",
                        "give [left, right]");
      }
      e.left_context = (*context)[0];
      e.right_context = (*context)[1];
    }
    const int64_t side = (e.conv_kernel - 1) / 2;
    yaml_.require("encoder.conv_context_size",
                  {fmt::format("[{}, {}]", side, side), fmt::format("- {}\n- {}", side, side)});
  }

  void read_transducer() {
    yaml_.require("decoder.normalization_mode", {"layer"});
    yaml_.require("decoder.blank_as_pad", {"true", "True"});
    PredictionConfig& p = config_.prediction;
    p.width = decide("decoder.prednet.pred_hidden", tensor("joint.pred.weight").size(1));
    const std::string prefix = "decoder.prediction.";
    if (has(prefix + "embeds.0.weight")) {
      p.kind = PredictionConfig::Kind::stateless;
      p.context_size = decide("decoder.context_size", count(prefix + "embeds.", ".weight"));
      p.layer_norm = yaml_.text("decoder.normalization_mode").value_or("") == "layer";
    } else {
      yaml_.require("decoder.normalization_mode", {});
      p.layers =
          decide("decoder.prednet.pred_rnn_layers", count(prefix + "dec_rnn.lstm.weight_ih_l", ""));
      if (has(prefix + "dec_rnn.lstm.weight_hr_l0")) {
        throw UserError(yaml_.where(), "unsupported setting decoder.prednet: a projected LSTM",
                        "only plain LSTM prediction networks are supported");
      }
    }
    config_.joint_width = decide("joint.jointnet.joint_hidden", tensor("joint.enc.weight").size(0));
    config_.joint_activation = yaml_.text("joint.jointnet.activation").value_or("relu");
    read_durations();
    const std::string table = p.layers > 0 ? prefix + "embed.weight" : prefix + "embeds.0.weight";
    read_vocabulary(tensor(table).size(0) - 1, "the prediction network");
  }

  void read_durations() {
    const int64_t rows = tensor("joint.joint_net.weight").size(0);
    const std::string table = config_.prediction.layers > 0 ? "embed.weight" : "embeds.0.weight";
    const int64_t columns = rows - tensor("decoder.prediction." + table).size(0);
    if (columns == 0) return;
    auto durations = yaml_.integers("decoding.durations");
    if (!durations || durations->empty())
      durations = yaml_.integers("model_defaults.tdt_durations");
    if (!durations || static_cast<int64_t>(durations->size()) != columns) {
      throw UserError(yaml_.where(),
                      fmt::format("the joint has {} duration outputs, decoding.durations lists {}",
                                  columns, durations ? durations->size() : 0),
                      "the checkpoint and its YAML do not belong together");
    }
    config_.durations = *durations;
  }

  void read_vocabulary(int64_t size, const char* part) {
    if (config_.vocabulary != 0 && config_.vocabulary != size) {
      throw UserError(
          yaml_.where(),
          fmt::format("{} has {} tokens, another head {}", part, size, config_.vocabulary),
          "the checkpoint is damaged");
    }
    config_.vocabulary = size;
  }

  const YamlView& yaml_;
  const StateDict& weights_;
  std::vector<std::string>& notices_;
  ModelConfig config_;
};

}  // namespace

ModelConfig read_config(const YamlView& yaml, const StateDict& weights,
                        std::vector<std::string>& notices) {
  return Reader(yaml, weights, notices).read();
}

}  // namespace rtfx
