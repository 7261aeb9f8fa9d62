// The hypotheses of a batch. append() adds a token to the rows of a mask, in place. Nothing here
// waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/streams.h"

namespace rtfx {

/// Returns [B] bool: whether row b of `encoded` [B, T', X] has a NaN within its first lengths[b]
/// frames. `lengths` is [B] int64.
at::Tensor rows_with_nan(const at::Tensor& encoded, const at::Tensor& lengths);

/// Returns which of `scores` are infinite or NaN, as bool of the same shape. It takes two kernels,
/// where isfinite() takes four.
at::Tensor not_finite(const at::Tensor& scores);

class BatchedHypotheses {
 public:
  /// Makes B empty hypotheses, each with room for `capacity` tokens. Whenever append() has been
  /// called as often as there is room, the room doubles, whatever the masks were. In a recorded
  /// graph it cannot grow, so `capacity` must then be the most tokens that a row can have.
  /// `encoded` is [B, T', X] and `lengths` [B] int64. A row with a NaN in its valid frames is
  /// marked.
  BatchedHypotheses(const at::Tensor& encoded, const at::Tensor& lengths, bool with_durations,
                    int64_t capacity);

  /// Adds one token to each row where `mask` ([B] bool) is true. The values of the other rows do
  /// not matter. `labels`, `frames` and `durations` are [B] int64, and `scores` is [B]. Durations
  /// are ignored if the object was made without them.
  void append(const at::Tensor& mask, const at::Tensor& labels, const at::Tensor& frames,
              const at::Tensor& durations, const at::Tensor& scores);

  /// Returns [B] bool: whether row b emitted its last token at frame time[b], as the limit-th or a
  /// later token of that frame.
  at::Tensor at_limit(const at::Tensor& time, int64_t limit) const;

  /// Transfers the state that a search in pieces keeps: the sums of scores, and the values that
  /// at_limit() reads.
  void transfer(StateTransfer& transfer);
  /// Ends a piece of frames[b] frames ([B] int64): frames then count from the begin of the next
  /// piece.
  void shift(const at::Tensor& frames) { last_frame_.sub_(frames); }

  int64_t capacity() const { return tokens_.size(1); }

  /// Returns the hypotheses. A row whose score is not finite is marked as NaN, too.
  Hypotheses result() const;

 private:
  void grow();

  int64_t appended_ = 0;                    // calls of append(): no row can be longer
  at::Tensor lengths_;                      // [B] int64
  at::Tensor tokens_, frames_, durations_;  // [B, capacity]; int64, so that writing needs no cast
  at::Tensor scores_, nan_;
  at::Tensor last_frame_;  // [B] int64, -1 before the first token
  at::Tensor run_;         // [B] int64, tokens at last_frame
};

/// Returns one result with the rows of all `parts` in their order, without n-best lists, words and
/// risk. `parts` must not be empty. All parts must be on one device, and either all or none must
/// have durations. Does not wait for the device.
Hypotheses concatenate(const std::vector<Hypotheses>& parts);

}  // namespace rtfx
