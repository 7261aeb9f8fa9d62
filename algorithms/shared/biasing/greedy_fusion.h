// A language model in a greedy search (Bataev et al., "NGPU-LM", 2025). With z the logits of the
// acoustic model, the search decides in two steps:
//
//   k = argmax over tokens and blank of z_k
//   if k is a token:  k = argmax over tokens of z_k + alpha * ln p_lm(k | tokens so far)
//
// So the acoustic model alone decides between blank and token, and no weight makes tokens vanish.
// The end of the text gets no score. The scores of contextual biasing (DeviceBias) are added in the
// second step. Tokens that a row forbids take part in neither step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "algorithms/shared/biasing/device_bias.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/ngram_lm.h"
#include "algorithms/streams.h"

namespace rtfx {

/// Returns whether a language model takes part. With alpha 0 none does.
bool uses_lm(const std::optional<LmOptions>& options);

/// The language model of a greedy decoder's option "lm".
struct GreedyLm {
  std::shared_ptr<const NgramLm> model;  // null without a language model
  double alpha = 0;

  GreedyLm() = default;
  /// See load_lm().
  GreedyLm(const std::optional<LmOptions>& options, const AcousticModel& acoustic);
  explicit operator bool() const { return model != nullptr; }
};

/// The states of the language model and of contextual biasing for each row of a batch. Without both
/// it does nothing. Tensors are changed in place. No member waits for the device, and all can be
/// recorded into a graph.
class GreedyFusion {
 public:
  /// Starts at the start of a sentence. `bias` has `rows` rows, or is empty.
  GreedyFusion(const GreedyLm& lm, int64_t rows, DeviceBias bias = {});

  /// Returns the bonus of each token as the next one of each row, [B, V] float32. It is undefined
  /// without a model.
  const at::Tensor& bonus() const { return bonus_; }
  /// Returns which tokens are forbidden, [B, V] bool; undefined if every row may have all tokens.
  const at::Tensor& forbidden() const { return bias_.forbidden; }

  /// Moves the rows where `mask` ([B] bool; undefined: all rows) is set by their label ([B] int64).
  /// Blank keeps the states.
  void append(const at::Tensor& labels, const at::Tensor& mask = {});

  /// Passes the states between two pieces to `transfer`: first those of biasing, then those of the
  /// language model. `rows`: see StateTransfer.
  void transfer(StateTransfer& transfer, const at::Tensor& rows);

 private:
  void score();

  GreedyLm lm_;
  DeviceBias bias_;
  at::Tensor states_;       // [B] int32; undefined without a language model
  at::Tensor bias_states_;  // [B] int32, see DeviceBias; undefined without biasing
  at::Tensor bonus_;
};

}  // namespace rtfx
