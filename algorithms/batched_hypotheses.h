// Hypotheses of a batch of rows, appended to with a mask, in place; nothing here waits for the
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include "algorithms/hypotheses.h"
#include "algorithms/streams.h"

namespace rtfx {

/// [B] bool: rows of `encoded` [B, T', X] with a NaN within their first lengths[b] ([B] int64)
/// frames.
at::Tensor rows_with_nan(const at::Tensor& encoded, const at::Tensor& lengths);

class BatchedHypotheses {
 public:
  /// Buffers have room for `capacity` tokens in each row. They double when append() was called that
  /// often, whatever its masks. In a recorded graph they cannot grow, so that `capacity` must be
  /// the most tokens that a row can have. encoded [B, T', X] and lengths [B] int64: a row with a
  /// NaN in its valid frames is marked.
  BatchedHypotheses(const at::Tensor& encoded, const at::Tensor& lengths, bool with_durations,
                    int64_t capacity);

  /// Rows where `mask` ([B] bool) get one token. labels, frames, durations: [B] int64 (durations
  /// are ignored unless kept); scores [B]. What the other rows hold in them does not
  /// matter.
  void append(const at::Tensor& mask, const at::Tensor& labels, const at::Tensor& frames,
              const at::Tensor& durations, const at::Tensor& scores);

  /// [B] bool: rows whose last token was emitted at frame time[b] and is the limit-th or later one
  /// at that frame.
  at::Tensor at_limit(const at::Tensor& time, int64_t limit) const;

  /// Transfers the sums of scores, and the values that at_limit() reads, of searches in pieces.
  /// Frames count from the begin of a piece. After a piece of `frames` frames ([B] int64), shift()
  /// makes them count from the begin of the next.
  void transfer(StateTransfer& transfer);
  void shift(const at::Tensor& frames) { last_frame_.sub_(frames); }

  int64_t capacity() const { return tokens_.size(1); }

  /// The result; a row whose score is NaN is marked too.
  Hypotheses result() const;

 private:
  void grow();

  int64_t appended_ = 0;                    // calls of append(): no row can be longer
  at::Tensor lengths_;                      // [B] int64
  at::Tensor tokens_, frames_, durations_;  // [B, capacity] int64: what is written needs no cast
  at::Tensor scores_, nan_;
  at::Tensor last_frame_;  // [B] int64, -1 before the first token
  at::Tensor run_;         // [B] int64, tokens at last_frame
};

/// Returns a result with the rows of all `parts` in their order, without n-best lists, words and
/// risk. There must be a part, and all must be on one device, with durations in all or in none.
/// Does not wait for the device.
Hypotheses concatenate(const std::vector<Hypotheses>& parts);

}  // namespace rtfx
