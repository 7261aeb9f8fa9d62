// A language model in a greedy search (Bataev et al., "NGPU-LM", 2025). With z the acoustic model's
// logits:
//
//   k = argmax over tokens and blank of z;  where k is a token, another one may take its place:
//   k = argmax over tokens of z_k + alpha * ln p_lm(k | tokens so far)
//
// The acoustic model alone decides between blank and token, so that no weight makes tokens vanish.
// No score is added for the end of the text.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/ngram_lm.h"

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

/// The language model's state of each row of a batch. Tensors are changed in place and nothing
/// waits for the device: can be recorded into a graph. Without a model it does nothing.
class GreedyFusion {
 public:
  /// At the start of a sentence.
  GreedyFusion(const GreedyLm& lm, int64_t rows);

  /// [B, V] float32, alpha * ln p of each token as the row's next; undefined without a model.
  const at::Tensor& bonus() const { return bonus_; }

  /// Rows where `mask` ([B] bool; undefined: all) is set move on by their label ([B] int64). Blank
  /// moves nothing.
  void append(const at::Tensor& labels, const at::Tensor& mask = {});

 private:
  GreedyLm lm_;
  at::Tensor states_;  // [B] int32
  at::Tensor bonus_;
};

}  // namespace rtfx
