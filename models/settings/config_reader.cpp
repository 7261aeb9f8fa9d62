#include "models/settings/config_reader.h"

#include <fmt/format.h>

#include "base/error.h"
#include "models/settings/encoder_settings.h"
#include "models/settings/feature_settings.h"
#include "models/settings/foreign_models.h"

namespace rtfx {
namespace {

/// One reading of a checkpoint: the YAML, the tensors and where they disagree.
class Reader {
 public:
  explicit Reader(const ConfigSource& source) : source_(source), yaml_(source.yaml) {}

  ModelConfig read() {
    refuse_foreign_models(source_);
    config_.target = yaml_.text("target").value_or("");
    config_.has_ctc = source_.has("ctc.weight");
    config_.has_transducer = source_.has("joint.joint_net.weight");
    if (yaml_.has("aux_ctc") && config_.has_transducer && !config_.has_ctc) {
      source_.notices.push_back("aux_ctc: the YAML describes a CTC head, the file holds none");
    }
    config_.features = read_features(source_);
    config_.encoder = read_encoder(source_, config_.features.mel_bins);
    if (config_.has_transducer) read_transducer();
    if (config_.has_ctc) read_vocabulary(source_.extent("ctc.weight", 3, 0) - 1, "the CTC head");
    config_.max_symbols = yaml_.integer("decoding.greedy.max_symbols").value_or(10);
    return config_;
  }

 private:
  void read_transducer() {
    yaml_.require("decoder.normalization_mode", {"layer"});
    yaml_.require("decoder.blank_as_pad", {"true", "True"});
    PredictionConfig& p = config_.prediction;
    p.width =
        source_.decide("decoder.prednet.pred_hidden", source_.extent("joint.pred.weight", 2, 1));
    const std::string prefix = "decoder.prediction.";
    if (source_.has(prefix + "embeds.0.weight")) {
      p.kind = PredictionConfig::Kind::stateless;
      p.context_size =
          source_.decide("decoder.context_size", source_.count(prefix + "embeds.", ".weight"));
      p.layer_norm = yaml_.text("decoder.normalization_mode").value_or("") == "layer";
    } else {
      yaml_.require("decoder.normalization_mode", {});
      p.layers = source_.decide("decoder.prednet.pred_rnn_layers",
                                source_.count(prefix + "dec_rnn.lstm.weight_ih_l", ""));
      if (source_.has(prefix + "dec_rnn.lstm.weight_hr_l0")) {
        throw UserError(yaml_.where(), "unsupported setting decoder.prednet: a projected LSTM",
                        "only plain LSTM prediction networks are supported");
      }
    }
    config_.joint_width =
        source_.decide("joint.jointnet.joint_hidden", source_.extent("joint.enc.weight", 2, 0));
    config_.joint_activation = yaml_.text("joint.jointnet.activation").value_or("relu");
    read_durations();
    const std::string table = p.layers > 0 ? prefix + "embed.weight" : prefix + "embeds.0.weight";
    read_vocabulary(source_.extent(table, 2, 0) - 1, "the prediction network");
  }

  void read_durations() {
    const int64_t rows = source_.extent("joint.joint_net.weight", 2, 0);
    const std::string table = config_.prediction.layers > 0 ? "embed.weight" : "embeds.0.weight";
    const int64_t columns = rows - source_.extent("decoder.prediction." + table, 2, 0);
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
    if (size < 1)
      source_.refuse(fmt::format("{} has no token but the blank", part),
                     "the checkpoint is damaged");
    if (config_.vocabulary != 0 && config_.vocabulary != size) {
      throw UserError(
          yaml_.where(),
          fmt::format("{} has {} tokens, another head {}", part, size, config_.vocabulary),
          "the checkpoint is damaged");
    }
    config_.vocabulary = size;
  }

  const ConfigSource& source_;
  const YamlView& yaml_;
  ModelConfig config_;
};

}  // namespace

ModelConfig read_config(const YamlView& yaml, const StateDict& weights,
                        std::vector<std::string>& notices) {
  const ConfigSource source{yaml, weights, notices};
  return Reader(source).read();
}

}  // namespace rtfx
