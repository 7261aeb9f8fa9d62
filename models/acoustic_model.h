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

/// The members are public, so that a test can assemble a model of any size by hand. A model does
/// not change once it is built. It is held by shared_ptr<const AcousticModel>, so that the weights
/// exist once per (device, dtype).
struct AcousticModel {
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  at::Device device{at::kCPU};
  at::ScalarType dtype = at::kFloat;  // dtype of heads, decoders and the frames they receive;
                                      // features are always float32
  at::ScalarType encoder_dtype = at::kFloat;
  std::optional<FeatureExtractor> features;
  std::optional<Encoder> encoder;
  std::optional<CtcHead> ctc_head;
  std::optional<PredictionNetwork> prediction;
  std::optional<Joint> joint;

  /// Copies the weights to `device` in `dtypes` (float32, bfloat16, float16, fp8 for the encoder's
  /// products, or on a CPU float64). TF32 is switched off for the whole process, so that float32
  /// means float32. `form` says how features and encoder are computed. Throws UserError where the
  /// encoder cannot be computed in this form, and for float64 on a GPU. Also throws UserError for a
  /// weight that is NaN or infinite, with the name of its tensor.
  static std::shared_ptr<const AcousticModel> build(const Checkpoint& checkpoint, at::Device device,
                                                    const Dtypes& dtypes,
                                                    EncoderForm form = EncoderForm::automatic);
};

/// Returns the weights of the heads, which decoders read. The keys are the names of
/// expected_tensors() (models/checkpoint/checkpoint.h). The tensors are the model's own, not
/// copies.
std::map<std::string, at::Tensor> head_weights(const AcousticModel& model);

}  // namespace rtfx
