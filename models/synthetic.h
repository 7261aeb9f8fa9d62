// Timing a model whose checkpoint is not at hand: its encoder with random weights, and a small
// trained checkpoint, the stand-in, in place of the rest.
//
// Frames of a random encoder would make nonsense of the labels, and with them of a decoder's work.
// So the encoder is run and timed for its shapes only; what the decoder reads are the frames that
// the stand-in's own encoder makes of the same audio, outside every timed region. Words, and with
// them WER, are the stand-in's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/encoder/encoder.h"
#include "models/encoder/features.h"

namespace rtfx {

/// The encoder of a published checkpoint, so that it can be timed without its weights.
struct Architecture {
  std::string name;
  int64_t mel_bins = 80;
  EncoderConfig encoder;
};

/// parakeet-1.1b, parakeet-0.6b (CTC and RNN-T), parakeet-0.6b-v2 (TDT v2 and v3),
/// fastconformer-large, conformer-{small,medium,large,ctc-large} (4x), and tiny, for trying.
std::vector<std::string> architecture_names();

/// Throws UserError with the nearest name where there is none. `where`: JSON pointer.
const Architecture& find_architecture(std::string_view name, std::string_view where);

/// The mark of such a model in records and tables.
constexpr const char* kSyntheticLabel = "random encoder + stand-in decoder";

/// A checkpoint with the settings of `architecture` for its encoder and everything else of
/// `stand_in`, which it keeps. Its sha256() is of both; `parameters` counts the encoder at full
/// size. The encoder's weights are made when a model is built, the same ones every time. Throws
/// UserError where a frame of `stand_in` is not a whole number of frames of `architecture`. `where`
/// names it.
Checkpoint synthetic_checkpoint(const Architecture& architecture, Checkpoint stand_in,
                                const std::string& where);

/// `checkpoint` as if its vocabulary had `tokens` tokens: those that it lacks cost what a token
/// costs in the heads, and are never chosen; they have no text. Decoders find what they found
/// before. Throws UserError where it has more tokens than that. `where` names it.
Checkpoint with_vocabulary(Checkpoint checkpoint, int64_t tokens, const std::string& where);

/// `checkpoint` with a stateless prediction network (Ghodsi et al. 2020) of one label of context in
/// place of its LSTM: its table holds what the LSTM gives for each label from its zero state. Words
/// are worse for it: of a TDT stand-in about as many (word error rate 34 instead of 27 %), but an
/// RNN-T says a token up to max_symbols times at its frame, not knowing that it did. Throws
/// UserError where it has no LSTM.
Checkpoint with_stateless_prediction(Checkpoint checkpoint, const std::string& where);

/// Random weights for the encoder that `config` describes.
StateDict random_encoder(const ModelConfig& config);

/// The stand-in's front end on a device.
class StandIn {
 public:
  /// `factor`: sub-sampling of the timed encoder.
  StandIn(const Checkpoint& checkpoint, int64_t factor, at::Device device, at::ScalarType dtype);

  /// Frames of the same utterances in the shape of `timed`, [B, T', D of the stand-in], each
  /// repeated where the timed encoder has more of them per second. Lengths are those of `timed`.
  Encoded operator()(const Encoded& timed, const at::Tensor& audio,
                     const at::Tensor& lengths) const;

 private:
  FeatureExtractor features_;
  Encoder encoder_;
  int64_t repeat_;
};

}  // namespace rtfx
