#include "models/synthetic.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"

namespace rtfx {
namespace {

constexpr uint64_t kSeed = 1;

}  // namespace

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
  made.sha256 = sha256(
      fmt::format("encoder {} seed {} decoder {}", architecture.name, kSeed, stand_in.sha256));
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
    : features_(checkpoint.config.features, checkpoint.weights, device),
      encoder_(checkpoint.config.encoder, checkpoint.config.features.mel_bins, checkpoint.weights,
               device, dtype),
      repeat_(checkpoint.config.encoder.factor() / factor) {}

Encoded StandIn::operator()(const Encoded& timed, const at::Tensor& audio,
                            const at::Tensor& lengths) const {
  at::Tensor frames = encoder_(features_(audio, lengths)).frames;
  if (repeat_ > 1) frames = frames.repeat_interleave(repeat_, 1);
  return {frames.narrow(1, 0, timed.frames.size(1)).contiguous(), timed.lengths};
}

}  // namespace rtfx
