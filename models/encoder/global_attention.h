// Local attention with a few frames that all others see and that see all others (Longformer,
// Beltagy et al. 2020), as NeMo has it.
#pragma once

#include "models/encoder/attention.h"

namespace rtfx {

/// The frames 0, s, 2 s, ... are global, G of them (EncoderConfig::global_tokens and
/// global_tokens_spacing), as far as a row reaches.
///
/// Every query has the global frames as keys besides its window, and twice where they lie in it: no
/// position and no bias u in their scores, gq . gk / sqrt(dk), one softmax over both. The values
/// are the ordinary ones. A global query sees all frames instead of its window, without positions,
/// with gq, gk and gv. gq, gk and gv are q, k and v, or of linear maps of their own.
///
/// NeMo reads its global queries in another order than it wrote them: it takes [G, H] for [H, G].
/// With one global frame both are equal. With more, head h of global frame g uses the query of head
/// (h G + g) mod H of frame (h G + g) div H. Models were trained with that, so it stays.
/// One thing is not repeated: NeMo's tensor often ends with a frame behind the utterance, and where
/// a global position falls on it, NeMo lets every query see it. Here it is padding like any other.
class GlobalAttention : public RelativeAttention {
 public:
  GlobalAttention(const EncoderConfig& config, const WeightReader& reader);

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& key_mask,
                        const at::Tensor& positions) const override;

 private:
  Heads project_global(const at::Tensor& x) const;
  /// The global rows' contexts over all frames, [B, H, G, dk]; `real` [B, G]: frames of the row.
  at::Tensor see_all(const Heads& global, const at::Tensor& queries, const at::Tensor& real,
                     const at::Tensor& key_mask) const;

  int64_t tokens_, spacing_;
  at::Tensor global_weight_, global_bias_;  // [3 d, d] and [3 d], or undefined
};

}  // namespace rtfx
