// A model ready to run: features, encoder and heads on one device, shared by all decoders.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "models/checkpoint.h"
#include "models/config.h"
#include "models/ctc_head.h"
#include "models/encoder.h"
#include "models/features.h"
#include "models/joint.h"
#include "models/prediction_network.h"

namespace rtfx {

/// Plain parts, so that a test can put together a model of any size by hand. Immutable once built
/// and held by shared_ptr<const AcousticModel>: the weights exist once per (device, dtype).
struct AcousticModel {
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  at::Device device{at::kCPU};
  at::ScalarType dtype = at::kFloat;  // of encoder and heads; features are always float32
  std::optional<FeatureExtractor> features;
  std::optional<Encoder> encoder;
  std::optional<CtcHead> ctc_head;
  std::optional<PredictionNetwork> prediction;
  std::optional<Joint> joint;

  /// Copies the weights to `device` in `dtype` (float32, bfloat16 or float16). float32 means
  /// float32: TF32 is switched off for the whole process.
  static std::shared_ptr<const AcousticModel> build(const Checkpoint& checkpoint, at::Device device,
                                                    at::ScalarType dtype);
};

}  // namespace rtfx
