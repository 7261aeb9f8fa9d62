// Growing hypotheses of a batch of rows, appended to with a mask; nothing here waits for the
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include "algorithms/hypotheses.h"

namespace rtfx {

class BatchedHypotheses {
 public:
  /// Buffers start at `capacity` tokens per row and double when full.
  BatchedHypotheses(int64_t batch, int64_t capacity, bool with_durations, at::Device device);

  /// Rows where `mask` ([B] bool) get one token. labels, frames, durations: [B] int64 (durations
  /// are ignored unless kept); scores [B] float32. What the other rows hold in them does not
  /// matter.
  void append(const at::Tensor& mask, const at::Tensor& labels, const at::Tensor& frames,
              const at::Tensor& durations, const at::Tensor& scores);

  /// Rows where `nan` is set are marked.
  void mark_nan(const at::Tensor& nan) { nan_ = nan_.logical_or(nan); }

  /// [B] bool: rows whose last token was emitted at frame time[b] and is the limit-th or later one
  /// at that frame.
  at::Tensor at_limit(const at::Tensor& time, int64_t limit) const;

  int64_t capacity() const { return tokens_.size(1); }

  /// Hands the buffers over; this object is empty afterwards.
  Hypotheses release();

 private:
  void grow();

  int64_t appended_ = 0;  // calls of append(): no row can be longer
  at::Tensor lengths_;    // [B] int64
  at::Tensor tokens_, frames_, durations_;
  at::Tensor scores_, nan_;
  at::Tensor last_frame_;  // [B] int64, -1 before the first token
  at::Tensor run_;         // [B] int64, tokens at last_frame
};

/// Rows of several results one after the other.
Hypotheses concatenate(const std::vector<Hypotheses>& parts);

}  // namespace rtfx
