#include "models/synthetic.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "models/heads/heads.h"

namespace rtfx {

namespace {

EncoderConfig fast_conformer(int64_t layers, int64_t width) {
  EncoderConfig e;
  e.layers = layers;
  e.width = width;
  e.heads = 8;
  e.conv_kernel = 9;
  return e;
}

Architecture conformer(const std::string& name, int64_t layers, int64_t width, int64_t heads) {
  Architecture a{name, 80, fast_conformer(layers, width)};
  a.encoder.heads = heads;
  a.encoder.conv_kernel = 31;
  a.encoder.subsampling_factor = 4;
  a.encoder.subsampling_channels = width;
  a.encoder.depthwise_subsampling = false;
  return a;
}

std::vector<Architecture> make_architectures() {
  Architecture v2{"parakeet-0.6b-v2", 128, fast_conformer(24, 1024)};
  v2.encoder.use_bias = false;
  v2.encoder.x_scaling = false;
  Architecture tiny{"tiny", 80, fast_conformer(2, 32)};
  tiny.encoder.subsampling_channels = 16;
  return {{"parakeet-1.1b", 80, fast_conformer(42, 1024)},
          {"parakeet-0.6b", 80, fast_conformer(24, 1024)},
          v2,
          {"fastconformer-large", 80, fast_conformer(17, 512)},
          conformer("conformer-small", 16, 176, 4),
          conformer("conformer-medium", 18, 256, 4),
          conformer("conformer-large", 17, 512, 8),
          conformer("conformer-ctc-large", 18, 512, 8),
          tiny};
}

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = make_architectures();
  return all;
}

}  // namespace

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Architecture& a : architectures()) names.push_back(a.name);
  return names;
}

const Architecture& find_architecture(std::string_view name, std::string_view where) {
  for (const Architecture& a : architectures()) {
    if (a.name == name) return a;
  }
  throw unknown_name(where, "encoder", name, architecture_names());
}

namespace {

constexpr uint64_t kSeed = 1;
constexpr double kNeverChosen = -1e4;  // a logit that fp16 can hold

/// `rows` [V.., ...] with `more` rows of `value` after the first `tokens`.
at::Tensor with_rows(const at::Tensor& rows, int64_t tokens, int64_t more, double value) {
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes[0] = more;
  return at::cat({rows.narrow(0, 0, tokens), at::full(sizes, value, rows.options()),
                  rows.narrow(0, tokens, rows.size(0) - tokens)});
}

}  // namespace

Checkpoint with_vocabulary(Checkpoint checkpoint, int64_t tokens, const std::string& where) {
  const int64_t own = checkpoint.config.vocabulary, more = tokens - own;
  if (more < 0) {
    throw UserError(where, fmt::format("has {} tokens, more than the {} asked for", own, tokens),
                    "name a larger vocabulary");
  }
  for (auto& [name, tensor] : checkpoint.weights) {
    const bool bias = name == "joint.joint_net.bias" || name == "ctc.bias";
    if (bias || name == "joint.joint_net.weight" || name == "ctc.weight" ||
        name == "decoder.prediction.embed.weight") {
      tensor = with_rows(tensor, own, more, bias ? kNeverChosen : 0);
    } else if (name.starts_with("decoder.prediction.embeds.")) {
      tensor = with_rows(tensor, own, more, 0);
    }
  }
  checkpoint.checksum = sha256(fmt::format("{} of {} tokens", checkpoint.sha256(), tokens));
  checkpoint.config.vocabulary = tokens;
  checkpoint.parameters = count_parameters(checkpoint.config);
  return checkpoint;
}

Checkpoint with_stateless_prediction(Checkpoint checkpoint, const std::string& where) {
  ModelConfig& config = checkpoint.config;
  if (!config.has_transducer || config.prediction.kind != PredictionConfig::Kind::lstm)
    throw UserError(where, "has no LSTM prediction network", "name a checkpoint that has one");
  const PredictionNetwork lstm(config.prediction, config.vocabulary, checkpoint.weights, at::kCPU,
                               at::kFloat);
  const int64_t labels = config.vocabulary + 1;
  const at::Tensor table =
      lstm.step(at::arange(labels, at::kLong), lstm.initial_state(labels)).output;
  std::erase_if(checkpoint.weights,
                [](const auto& w) { return w.first.starts_with("decoder.prediction."); });
  checkpoint.weights["decoder.prediction.embeds.0.weight"] = table;
  config.prediction.kind = PredictionConfig::Kind::stateless;
  config.prediction.context_size = 1;
  config.prediction.layer_norm = false;
  checkpoint.checksum = sha256(checkpoint.sha256() + " stateless");
  checkpoint.parameters = count_parameters(config);
  return checkpoint;
}

Checkpoint synthetic_checkpoint(const Architecture& architecture, Checkpoint stand_in,
                                const std::string& where) {
  const int64_t ours = stand_in.config.encoder.factor();
  const int64_t wanted = architecture.encoder.factor();
  if (ours % wanted != 0) {
    throw UserError(
        where,
        fmt::format("sub-samples {} times, encoder '{}' {} times", ours, architecture.name, wanted),
        "a stand-in's frames must be as long as the encoder's, or whole multiples");
  }
  Checkpoint made;
  made.config = stand_in.config;
  made.config.encoder = architecture.encoder;
  made.config.features.mel_bins = architecture.mel_bins;
  made.tokenizer = stand_in.tokenizer;
  for (const auto& [name, tensor] : stand_in.weights) {
    if (!name.starts_with("encoder.") && !name.starts_with("preprocessor."))
      made.weights[name] = tensor;
  }
  made.parameters = count_parameters(made.config);
  made.checksum = sha256(
      fmt::format("encoder {} seed {} decoder {}", architecture.name, kSeed, stand_in.sha256()));
  made.architecture = architecture.name;
  made.notices = std::move(stand_in.notices);
  made.stand_in = std::make_shared<const Checkpoint>(std::move(stand_in));
  return made;
}

StateDict random_encoder(const ModelConfig& config) {
  ModelConfig headless = config;
  headless.has_ctc = headless.has_transducer = false;
  return random_state_dict(headless, kSeed);
}

StandIn::StandIn(const Checkpoint& checkpoint, int64_t factor, at::Device device,
                 at::ScalarType dtype)
    : features_(checkpoint.config.features, checkpoint.weights, device, /*fused=*/false),
      encoder_(checkpoint.config.encoder, checkpoint.config.features.mel_bins, checkpoint.weights,
               device, dtype, {EncoderForm::reference}),
      repeat_(checkpoint.config.encoder.factor() / factor) {}

Encoded StandIn::operator()(const Encoded& timed, const at::Tensor& audio,
                            const at::Tensor& lengths) const {
  at::Tensor frames = encoder_(features_(audio, lengths)).frames;
  if (repeat_ > 1) frames = frames.repeat_interleave(repeat_, 1);
  return {frames.narrow(1, 0, timed.frames.size(1)).contiguous(), timed.lengths};
}

}  // namespace rtfx
