// The calls of a transducer as decoders see them: predict; decide (greedy) or log_probs (beams).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// The decision of a greedy search from one joint output, per row. A NaN counts as the largest
/// logit, so it reaches the score of the hypothesis, where BatchedHypotheses finds it.
struct Decision {
  at::Tensor labels;  // [...] int64, argmax over tokens and blanks, the first of equals; blank()
                      // for each of several blanks
  at::Tensor
      scores;  // [...] logit (in the model's dtype) or log-probability (float32) of that label
  at::Tensor durations;  // [...] int64, frames to advance: TDT's argmax as a value, with a blank's
                         // 0 made 1; RNN-T: 1 for blank, 0 for a token; multi-blank RNN-T: the
                         // blank's own, 0 for a token
  at::Tensor predicted;  // [...] int64, TDT: the argmax's value itself; undefined for RNN-T
  at::Tensor is_blank;   // [...] bool
};

/// Natural logarithms of the probabilities of what may come next, float32.
struct LogProbs {
  at::Tensor labels;     // [..., V+1], tokens and blank; with several blanks [..., labels()]
  at::Tensor durations;  // [..., D], TDT: independent of the label; undefined for RNN-T
};

class Transducer {
 public:
  struct Options {
    bool project_encoder_once = true;     // joint.enc for the whole batch instead of per call
    bool project_prediction_once = true;  // joint.pred per predictor call instead of per joint call
    std::string score_kind = "logit";  // "logit" or "logprob" (log-softmax over tokens and blank)
  };

  /// Throws UserError when the model has no transducer head.
  Transducer(std::shared_ptr<const AcousticModel> model, Options options);

  /// frames [B, T', D] -> [B, T', H], or as they are without project_encoder_once.
  at::Tensor encode(const at::Tensor& frames) const;

  /// The result of encode() for a single frame of zeros. It shows the width and the dtype.
  at::Tensor encoded_frame() const;

  struct Prediction {
    at::Tensor output;  // [B, H], or [B, P] without project_prediction_once
    PredictionState state;
  };
  PredictionState initial_state(int64_t batch) const;
  /// Prediction network on labels [B] int64 (blank = start symbol), for all rows.
  Prediction predict(const at::Tensor& labels, const PredictionState& state) const;
  /// predict() of the start symbol from the zero state.
  Prediction start(int64_t batch) const;

  /// encoded [..., H or D] (rows of encode()), output broadcast against it. Where the joint decides
  /// for a token, the sum of logit and `bonus` chooses it, and the sum then counts in the score
  /// (float32). `bonus` is [..., V] float32 and broadcast like output. Without one, the logit
  /// chooses. Tokens that are set in `forbidden`, [..., V] bool and broadcast likewise, are as if
  /// the joint had none.
  Decision decide(const at::Tensor& encoded, const at::Tensor& output, const at::Tensor& bonus = {},
                  const at::Tensor& forbidden = {}) const;

  /// decide()'s rule alone: logits [..., labels() + D].
  Decision decide_logits(const at::Tensor& logits, const at::Tensor& bonus = {}) const;
  at::Tensor logits(const at::Tensor& encoded, const at::Tensor& output,
                    const at::Tensor& forbidden = {}) const;

  /// Inputs as decide() takes them; the logits are divided by `temperature` first.
  LogProbs log_probs(const at::Tensor& encoded, const at::Tensor& output, double temperature,
                     const at::Tensor& forbidden = {}) const;

  /// V, the start symbol; the joint's outputs from it on are blanks.
  int64_t blank() const { return model_->prediction->blank(); }
  /// Outputs of the joint that are tokens or blanks: V+1, more with big blanks.
  int64_t labels() const { return model_->config.labels(); }
  bool is_tdt() const { return duration_values_.defined(); }
  /// A decision may advance by more than one frame: TDT and multi-blank RNN-T.
  bool skips_frames() const { return is_tdt() || blank_durations_.defined(); }
  const at::Tensor& duration_values() const { return duration_values_; }  // [D] int64
  /// The durations on the host; empty for RNN-T.
  const std::vector<int64_t>& duration_list() const { return model_->config.durations; }
  at::Device device() const { return model_->device; }

 private:
  std::shared_ptr<const AcousticModel> model_;
  Options options_;
  at::Tensor duration_values_;
  at::Tensor blank_durations_;  // [1 + blanks] int64, multi-blank: 0 for tokens, then each blank's
};

/// Row b of `encoded` [B, T', X] at frames[b] ([B] int64, within bounds): [B, X].
at::Tensor gather_frames(const at::Tensor& encoded, const at::Tensor& frames);

}  // namespace rtfx
