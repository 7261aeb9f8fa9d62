// A model ready to run: features, encoder and heads on one device, shared by all decoders.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/dtypes.h"
#include "models/encoder/encoder.h"
#include "models/encoder/features.h"
#include "models/heads/heads.h"
#include "models/synthetic.h"

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
  std::optional<StandIn> stand_in;  // where `encoder` has random weights

  /// The frames that decoders read: `encoded`, which is the output of `encoder`, or the stand-in's
  /// frames instead. `audio` and `lengths` are the arguments of `features`. This belongs to no
  /// timed region and does not synchronise.
  Encoded frames_for_decoder(const Encoded& encoded, const at::Tensor& audio,
                             const at::Tensor& lengths) const {
    return stand_in ? (*stand_in)(encoded, audio, lengths) : encoded;
  }

  /// Copies the weights to `device` in `dtypes` (float32, bfloat16, float16, or fp8 for the
  /// encoder's products). float32 means float32: TF32 is switched off for the whole process.
  /// `form`: how features and encoder are computed; a stand-in's always by operators. Throws
  /// UserError where the encoder cannot be computed like that, and for a weight that is NaN or
  /// infinite, with the name of its tensor.
  static std::shared_ptr<const AcousticModel> build(const Checkpoint& checkpoint, at::Device device,
                                                    const Dtypes& dtypes,
                                                    EncoderForm form = EncoderForm::automatic);
};

}  // namespace rtfx
