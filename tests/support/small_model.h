// Configurations of small models with random weights.
#pragma once

#include "models/acoustic_model.h"

namespace rtfx::test {

inline ModelConfig small_config() {
  ModelConfig config;
  config.features.mel_bins = 80;
  config.encoder.layers = 2;
  config.encoder.width = 16;
  config.encoder.heads = 2;
  config.encoder.conv_kernel = 9;
  config.encoder.subsampling_channels = 8;
  config.has_ctc = true;
  config.has_transducer = true;
  config.prediction.width = 12;
  config.prediction.layers = 2;
  config.joint_width = 10;
  config.durations = {0, 1, 2, 3, 4};
  config.vocabulary = 20;
  return config;
}

inline std::shared_ptr<const AcousticModel> random_model(const ModelConfig& config, uint64_t seed,
                                                         at::Device device = at::kCPU,
                                                         at::ScalarType dtype = at::kFloat) {
  Checkpoint checkpoint;
  checkpoint.config = config;
  checkpoint.weights = random_state_dict(config, seed);
  return AcousticModel::build(checkpoint, device, dtype);
}

}  // namespace rtfx::test
