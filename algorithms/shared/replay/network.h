// The reference that decisions are compared with: a model's prediction and joint networks, or its
// CTC head. They are computed in a wider dtype than the model's, on the same weights and frames.
// Each vector has the variance that rounding to the model's dtype gives it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/replay/rounding.h"
#include "models/acoustic_model.h"

namespace rtfx {

class ReplayNetwork {
 public:
  /// Copies the weights that it needs, in the wide dtype. `head`: transducer or ctc.
  ReplayNetwork(std::shared_ptr<const AcousticModel> model, Head head);

  /// Returns this network with penalised blanks (blank_penalty.h); the weights are shared.
  ReplayNetwork penalised(double penalty) const;

  /// Returns the projected predictions after each prefix: tokens [B, U] -> [B, U + 1, H]. Tokens
  /// beyond a row's end do not matter, but must be 0..V.
  Uncertain predictions(const at::Tensor& tokens) const;
  /// Projects frames [..., D] in the model's dtype to [..., H]. For CTC it returns them as they
  /// are.
  Uncertain encode(const at::Tensor& frames) const;

  /// The outputs of N places. For CTC, they depend on `encoded` alone.
  struct Outputs {
    at::Tensor logits;  // [N, V+1+D]
    Uncertain hidden;   // [N, H], what the last layer read
  };
  Outputs outputs(const Uncertain& encoded, const Uncertain& prediction) const;

  /// Returns the largest gap [N] by which the logit of `best` may exceed that of `chosen` though
  /// the model's arithmetic said the opposite. It has two parts. The first is u (|z_best| +
  /// |z_chosen|), for the rounding of the two logits. The second is kDeviations standard deviations
  /// of their difference, for the errors of inputs and sums. chosen, best: [N] int64, columns of
  /// the logits.
  at::Tensor bound(const Outputs& outputs, const at::Tensor& chosen, const at::Tensor& best) const;

  /// Returns the logits of `labels` [N] int64, with the variance of a rounded logit.
  Uncertain logit(const Outputs& outputs, const at::Tensor& labels) const;
  /// Returns log-probabilities of labels [N] among the columns [first, first + count). Labels count
  /// from `first`.
  Uncertain log_prob(const Outputs& outputs, const at::Tensor& labels, int64_t first, int64_t count,
                     double temperature = 1) const;

  /// The number of standard deviations in all bounds. The variance of a rounding is computed for
  /// its worst mantissa, so these are more than five real standard deviations.
  static constexpr double kDeviations = 4;

  const Rounding& rounding() const { return rounding_; }
  int64_t labels() const { return labels_; }  // V+1
  int64_t durations() const { return durations_; }
  int64_t width() const { return output_.weight.size(1); }  // H
  bool has_predictions() const { return prediction_.has_value(); }
  /// Returns the number of places whose outputs and bounds take about `bytes` bytes, at least one.
  size_t rows_within(int64_t bytes) const;

 private:
  struct Layer {
    Rounding::Linear input, recurrent;
  };
  Uncertain lstm(const Uncertain& inputs, const Layer& layer) const;

  std::shared_ptr<const AcousticModel> model_;
  Rounding rounding_;
  int64_t labels_, durations_;
  Rounding::Linear output_;
  std::optional<Rounding::Linear> encoder_, prediction_;
  std::vector<at::Tensor> embeddings_;
  std::vector<Layer> layers_;
};

}  // namespace rtfx
