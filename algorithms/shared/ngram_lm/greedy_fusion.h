// A language model in a greedy search (Bataev et al., "NGPU-LM", 2025). With z the acoustic model's
// logits:
//
//   k = argmax over tokens and blank of z;  where k is a token, another one may take its place:
//   k = argmax over tokens of z_k + alpha * ln p_lm(k | tokens so far)
//
// The acoustic model alone decides between blank and token, so that no weight makes tokens vanish.
// No score is added for the end of the text. What a row adds to its own tokens (RowBias: phrases
// that are boosted) comes in the same place; tokens that it must not have are none in either line.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "algorithms/row_state.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/ngram_lm.h"
#include "algorithms/shared/ngram_lm/row_bias.h"

namespace rtfx {

/// Whether a language model takes part: with alpha 0 none does.
bool uses_lm(const std::optional<LmOptions>& options);

/// What a greedy decoder makes of its option "lm".
struct GreedyLm {
  std::shared_ptr<const NgramLm> model;  // null: none
  double alpha = 0;

  GreedyLm() = default;
  /// See load_lm().
  GreedyLm(const std::optional<LmOptions>& options, const AcousticModel& acoustic);
  explicit operator bool() const { return model != nullptr; }
};

/// The language model's state of each row of a batch, and that of the row's own model. Tensors are
/// changed in place and nothing waits for the device: can be recorded into a graph. Without a model
/// it does nothing.
class GreedyFusion {
 public:
  /// At the start of a sentence. bias: of `rows` rows, or none.
  GreedyFusion(const GreedyLm& lm, int64_t rows, RowBias bias = {});

  /// [B, V] float32, what is added to each token as the row's next; undefined without a model.
  const at::Tensor& bonus() const { return bonus_; }
  /// [B, V] bool; undefined where every row may have all tokens.
  const at::Tensor& forbidden() const { return bias_.forbidden; }

  /// Rows where `mask` ([B] bool; undefined: all) is set move on by their label ([B] int64). Blank
  /// moves nothing.
  void append(const at::Tensor& labels, const at::Tensor& mask = {});

  /// For searches in pieces: first the state of each row's own model, then the other's. `rows`: see
  /// StateWalk.
  void walk(StateWalk& walk, const at::Tensor& rows);

 private:
  void score();

  GreedyLm lm_;
  RowBias bias_;
  at::Tensor states_;       // [B] int32; undefined without a language model
  at::Tensor bias_states_;  // [B] int32, see RowBias; undefined without models of rows
  at::Tensor bonus_;
};

}  // namespace rtfx
