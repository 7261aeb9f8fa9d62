// Greedy CTC decoding (Graves et al. 2006): the best label of every frame, collapsed.
//
//   k_t = argmax_k p(k | t);  result = k_t where k_t != blank and (t = 0 or k_t != k_{t-1})
#pragma once

#include "algorithms/decoder.h"

namespace rtfx {

/// Frame of a token: the first of its run. Score: sum over all frames (blanks included) of the best
/// label's log-probability. A handful of tensor operations for the whole batch; never waits for the
/// device. Ties go to the lowest token id.
class CtcGreedy : public Decoder {
 public:
  Description describe() const override;
  nlohmann::json options() const override { return nlohmann::json::object(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;

  /// The collapse alone. logits [B, T', V+1] (blank last), lengths [B] int64.
  static Hypotheses collapse(const at::Tensor& logits, const at::Tensor& lengths);

 private:
  std::shared_ptr<const AcousticModel> model_;
};

}  // namespace rtfx
