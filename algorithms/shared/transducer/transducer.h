// The calls that decoders make to a transducer: predict(), then decide() in greedy searches or
// log_probs() in beam searches. RNN-T: Graves, "Sequence Transduction with Recurrent Neural
// Networks" (2012). TDT: Xu et al., "Efficient Sequence Transduction by Jointly Predicting Tokens
// and Durations" (2023). Multi-blank RNN-T: Xu et al., arXiv 2211.03541.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// The decision of a greedy search from one joint output, per row. A NaN counts as the largest
/// logit, so it reaches the score of the hypothesis, where BatchedHypotheses finds it.
struct Decision {
  /// [...] int64: argmax over tokens and blanks, the first of equal ones. It is blank() for each of
  /// several blanks.
  at::Tensor labels;
  /// [...]: the logit of that label, in the model's dtype, or in score_dtype() with a bonus. With
  /// the score kind "logprob", it is the log-probability in score_dtype().
  at::Tensor scores;
  /// [...] int64: frames to advance. For TDT, this is the value of the likeliest duration, but 1
  /// for a blank of duration 0. For RNN-T, it is 1 for blank and 0 for a token. For multi-blank
  /// RNN-T, it is the duration of the blank, and 0 for a token.
  at::Tensor durations;
  at::Tensor predicted;  // [...] int64: value of TDT's likeliest duration; undefined for RNN-T
  at::Tensor is_blank;   // [...] bool
};

/// Natural logarithms of the probabilities of what may come next, of score_dtype().
struct LogProbs {
  at::Tensor labels;     // [..., V+1], tokens and blank; with several blanks [..., labels()]
  at::Tensor durations;  // [..., D], TDT: independent of the label; undefined for RNN-T
};

/// Members enqueue their work on the current stream and do not wait for the device. The constructor
/// waits while it copies the durations.
class Transducer {
 public:
  struct Options {
    bool project_encoder_once = true;     // joint.enc for the whole batch instead of per call
    bool project_prediction_once = true;  // joint.pred per predictor call instead of per joint call
    std::string score_kind = "logit";  // "logit" or "logprob" (log-softmax over tokens and blank)
  };

  /// Throws UserError when the model has no transducer head.
  Transducer(std::shared_ptr<const AcousticModel> model, Options options);

  /// Projects frames [B, T', D] to [B, T', H]. Returns them unchanged without project_encoder_once.
  at::Tensor encode(const at::Tensor& frames) const;

  /// Returns encode() of a single frame of zeros, which shows the width and the dtype.
  at::Tensor encoded_frame() const;

  struct Prediction {
    at::Tensor output;  // [B, H], or [B, P] without project_prediction_once
    PredictionState state;
  };
  /// Returns the zero state of `batch` rows.
  PredictionState initial_state(int64_t batch) const;
  /// Evaluates the prediction network for labels [B] int64 of all rows. blank() is the start
  /// symbol.
  Prediction predict(const at::Tensor& labels, const PredictionState& state) const;
  /// Returns predict() of the start symbol in the zero state.
  Prediction start(int64_t batch) const;

  /// Decides for a label at each place. `encoded` is [..., H or D] (rows of encode()), and `output`
  /// is broadcast against it. If the joint decides for a token, the sum of logit and `bonus`
  /// chooses which one, and this sum counts in the score. `bonus` is [..., V] float32 and broadcast
  /// like `output`. Without it, the logit chooses. Tokens that are set in `forbidden` ([..., V]
  /// bool, broadcast likewise) are treated as if the joint did not have them.
  Decision decide(const at::Tensor& encoded, const at::Tensor& output, const at::Tensor& bonus = {},
                  const at::Tensor& forbidden = {}) const;

  /// Applies the rule of decide() to logits [..., labels() + D].
  Decision decide_logits(const at::Tensor& logits, const at::Tensor& bonus = {}) const;
  /// Returns the joint's logits for the inputs of decide(), [..., labels() + D] in the model's
  /// dtype. Forbidden tokens have -inf.
  at::Tensor logits(const at::Tensor& encoded, const at::Tensor& output,
                    const at::Tensor& forbidden = {}) const;

  /// Returns log-probabilities for the inputs of decide(), after the logits were divided by
  /// `temperature`.
  LogProbs log_probs(const at::Tensor& encoded, const at::Tensor& output, double temperature,
                     const at::Tensor& forbidden = {}) const;

  /// Returns V, the start symbol. Labels from V on are blanks.
  int64_t blank() const { return model_->prediction->blank(); }
  /// Returns the number of joint outputs that are tokens or blanks: V+1, or more with big blanks.
  int64_t labels() const { return model_->config.labels(); }
  bool is_tdt() const { return duration_values_.defined(); }
  /// Returns whether a decision may advance by more than one frame: TDT and multi-blank RNN-T.
  bool skips_frames() const { return is_tdt() || blank_durations_.defined(); }
  const at::Tensor& duration_values() const { return duration_values_; }  // [D] int64
  /// Returns the durations on the host; empty for RNN-T.
  const std::vector<int64_t>& duration_list() const { return model_->config.durations; }
  at::Device device() const { return model_->device; }

 private:
  std::shared_ptr<const AcousticModel> model_;
  Options options_;
  at::Tensor duration_values_;
  at::Tensor blank_durations_;  // [1 + blanks] int64, multi-blank: 0 for tokens, then each blank's
};

/// Returns frame frames[b] of each row b: encoded [B, T', X], frames [B] int64, within bounds ->
/// [B, X].
at::Tensor gather_frames(const at::Tensor& encoded, const at::Tensor& frames);

}  // namespace rtfx
