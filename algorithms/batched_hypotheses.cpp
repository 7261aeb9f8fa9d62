#include "algorithms/batched_hypotheses.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "models/checkpoint/score_dtype.h"

namespace rtfx {
namespace {

at::Tensor widened(const at::Tensor& values, int64_t columns) {
  return values.defined() ? at::constant_pad_nd(values, {0, columns - values.size(1)}) : values;
}

}  // namespace

at::Tensor rows_with_nan(const at::Tensor& encoded, const at::Tensor& lengths) {
  const at::Tensor valid =
      at::arange(encoded.size(1), lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
  return encoded.isnan().any(2).logical_and(valid).any(1);
}

at::Tensor not_finite(const at::Tensor& scores) { return (scores - scores).isnan(); }

BatchedHypotheses::BatchedHypotheses(const at::Tensor& encoded, const at::Tensor& lengths,
                                     bool with_durations, int64_t capacity) {
  const int64_t batch = lengths.size(0), columns = std::max<int64_t>(1, capacity);
  lengths_ = at::zeros_like(lengths);
  tokens_ = at::zeros({batch, columns}, lengths.options());
  frames_ = at::zeros_like(tokens_);
  if (with_durations) durations_ = at::zeros_like(tokens_);
  scores_ = at::zeros({batch}, lengths.options().dtype(score_dtype(encoded.scalar_type())));
  nan_ = rows_with_nan(encoded, lengths);
  last_frame_ = at::full_like(lengths, -1);
  run_ = at::zeros_like(lengths);
}

void BatchedHypotheses::grow() {
  const int64_t columns = 2 * capacity();
  tokens_ = widened(tokens_, columns);
  frames_ = widened(frames_, columns);
  durations_ = widened(durations_, columns);
}

void BatchedHypotheses::append(const at::Tensor& mask, const at::Tensor& labels,
                               const at::Tensor& frames, const at::Tensor& durations,
                               const at::Tensor& scores) {
  // Each call adds at most one token to a row, so counting calls bounds the rows without a
  // read-back.
  if (appended_ == capacity()) grow();
  ++appended_;
  // The slot at a row's length is free in every row. All rows write it, and the mask counts it.
  const at::Tensor slot = lengths_.unsqueeze(1);
  const auto write = [&](at::Tensor& to, const at::Tensor& from) {
    to.scatter_(1, slot, from.unsqueeze(1));
  };
  write(tokens_, labels);
  write(frames_, frames);
  if (durations_.defined()) write(durations_, durations);
  lengths_.add_(mask);
  at::where_out(scores_, mask, scores_ + scores, scores_);
  at::where_out(run_, mask, run_ * (last_frame_ == frames) + 1, run_);
  at::where_out(last_frame_, mask, frames, last_frame_);
}

at::Tensor BatchedHypotheses::at_limit(const at::Tensor& time, int64_t limit) const {
  return (run_ >= limit).logical_and(last_frame_ == time);
}

void BatchedHypotheses::transfer(StateTransfer& transfer) {
  transfer(scores_);
  transfer(last_frame_);
  transfer(run_);
}

Hypotheses BatchedHypotheses::result() const {
  const bool with_durations = durations_.defined();
  Hypotheses h = Hypotheses::one_block(lengths_.size(0), /*entries=*/1, capacity(), with_durations,
                                       lengths_.device());
  h.nbest = {};
  h.lengths.copy_(lengths_);
  h.tokens.copy_(tokens_);
  h.frames.copy_(frames_);
  if (with_durations) h.durations.copy_(durations_);
  h.scores.copy_(scores_);
  at::logical_or_out(h.nan, nan_, not_finite(h.scores));
  return h;
}

Hypotheses concatenate(const std::vector<Hypotheses>& parts) {
  int64_t columns = 0;
  for (const Hypotheses& part : parts) columns = std::max(columns, part.tokens.size(1));
  const auto join = [&](auto member, bool wide) {
    std::vector<at::Tensor> tensors;
    for (const Hypotheses& part : parts)
      tensors.push_back(wide ? widened(part.*member, columns) : part.*member);
    return tensors.front().defined() ? at::cat(tensors) : at::Tensor();
  };
  return {join(&Hypotheses::lengths, false), join(&Hypotheses::tokens, true),
          join(&Hypotheses::frames, true),   join(&Hypotheses::durations, true),
          join(&Hypotheses::scores, false),  join(&Hypotheses::nan, false)};
}

}  // namespace rtfx
