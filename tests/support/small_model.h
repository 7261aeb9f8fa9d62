// Configurations of small models with random weights, and batches for them.
#pragma once

#include <ATen/ATen.h>

#include <limits>
#include <random>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"
#include "tests/support/random_weights.h"

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

/// Makes the encoder's frames depend on one of five prompts.
inline void prompts(ModelConfig& config) {
  config.prompt = {.count = 5,
                   .width = 24,
                   .standard = 3,
                   .languages = {{"auto", 3}, {"de-DE", 1}, {"en-US", 0}}};
}

inline std::shared_ptr<const AcousticModel> random_model(
    const ModelConfig& config, uint64_t seed, at::Device device = at::kCPU,
    const Dtypes& dtypes = at::kFloat, EncoderForm form = EncoderForm::automatic) {
  Checkpoint checkpoint;
  checkpoint.config = config;
  checkpoint.weights = random_state_dict(config, seed);
  return AcousticModel::build(checkpoint, device, dtypes, form);
}

/// Returns `rows` rows of random lengths from 0 to `frames`. Values beyond a row's end are NaN.
inline EncodedBatch random_batch(std::mt19937& random, int64_t rows, int64_t frames, int64_t width,
                                 at::Device device = at::kCPU, at::ScalarType dtype = at::kFloat) {
  std::uniform_int_distribution<int64_t> length(0, frames);
  EncodedBatch batch;
  for (int64_t b = 0; b < rows; ++b) batch.lengths_host.push_back(length(random));
  batch.frames = 3 * at::randn({rows, frames, width}, at::TensorOptions(device).dtype(dtype));
  batch.lengths = at::tensor(batch.lengths_host, at::kLong).to(device);
  for (int64_t b = 0; b < rows; ++b) {
    batch.frames[b]
        .slice(0, batch.lengths_host[static_cast<size_t>(b)])
        .fill_(std::numeric_limits<double>::quiet_NaN());
  }
  return batch;
}

}  // namespace rtfx::test
