// A model ready to run: features, encoder and heads on one device, shared by all decoders.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/dtypes.h"
#include "models/encoder/encoder.h"
#include "models/encoder/features.h"
#include "models/heads/heads.h"

namespace rtfx {

/// Plain parts, so that a test can put together a model of any size by hand. Immutable once built
/// and held by shared_ptr<const AcousticModel>: the weights exist once per (device, dtype).
struct AcousticModel {
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  at::Device device{at::kCPU};
  at::ScalarType dtype = at::kFloat;  // of heads and decoders, and of the frames they are given;
                                      // features are always float32
  at::ScalarType encoder_dtype = at::kFloat;
  std::optional<FeatureExtractor> features;
  std::optional<Encoder> encoder;
  std::optional<CtcHead> ctc_head;
  std::optional<PredictionNetwork> prediction;
  std::optional<Joint> joint;

  /// Copies the weights to `device` in `dtypes` (float32, bfloat16, float16, fp8 for the encoder's
  /// products, or on a CPU float64). float32 means float32: TF32 is switched off for the whole
  /// process. `form`: how features and encoder are computed. Throws UserError where the encoder
  /// cannot be computed like that, for float64 on a GPU, and for a weight that is NaN or infinite,
  /// with the name of its tensor.
  static std::shared_ptr<const AcousticModel> build(const Checkpoint& checkpoint, at::Device device,
                                                    const Dtypes& dtypes,
                                                    EncoderForm form = EncoderForm::automatic);
};

/// The heads' weights, which decoders read, by the names of expected_tensors()
/// (models/checkpoint/checkpoint.h). They are the model's own tensors.
std::map<std::string, at::Tensor> head_weights(const AcousticModel& model);

}  // namespace rtfx
