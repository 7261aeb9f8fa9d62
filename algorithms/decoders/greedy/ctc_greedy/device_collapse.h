// Greedy CTC search of a batch on a GPU, from logits to results, with the kernel of
// collapse_kernel.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "algorithms/hypotheses.h"

namespace rtfx {

/// The state of the rows of streams between two pieces.
struct CtcCarried {
  at::Tensor label;  // [B] int64, label of the last frame; blank before the first one
  at::Tensor sum;    // [B] int64, sum of log-probabilities in units of 1 / kLogprobUnits
};

/// Runs the kernel. Batches share counters, so they must be decoded on one stream.
class DeviceCollapse {
 public:
  /// Returns whether the kernel takes these logits. They must be on a GPU, of fp32, bf16 or fp16,
  /// and the labels of a frame must lie side by side.
  static bool takes(const at::Tensor& logits);

  /// Decodes a batch. `logits` [B, T', V+1] must be such that takes() is true, with blank last.
  /// `lengths` is [B] int64. `forbidden` [B, V] bool marks tokens that a row must not have, and is
  /// undefined if there are none. `carried` is the state of streams, which is replaced by that of
  /// the next piece. It is null for whole utterances. All tensors are on one device. Enqueues one
  /// kernel and does not wait. The result is one block of memory, so that one transfer copies it.
  ///
  /// Labels, NaN and infinities are those of CtcGreedy::collapse(). A log-probability is -ln of a
  /// sum of float32, which is added in another order than LibTorch's. A score is the sum of
  /// log-probabilities that are rounded to 2^-32.
  Hypotheses operator()(const at::Tensor& logits, const at::Tensor& lengths,
                        const at::Tensor& forbidden, CtcCarried* carried = nullptr);

 private:
  at::Tensor finished_;  // [most rows] int32, zeros: CtcCollapse::finished
};

}  // namespace rtfx
