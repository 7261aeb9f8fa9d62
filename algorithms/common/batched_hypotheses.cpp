#include "algorithms/common/batched_hypotheses.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {
namespace {

at::Tensor widened(const at::Tensor& values, int64_t columns) {
  return values.defined() ? at::constant_pad_nd(values, {0, columns - values.size(1)}) : values;
}

}  // namespace

BatchedHypotheses::BatchedHypotheses(int64_t batch, int64_t capacity, bool with_durations,
                                     at::Device device) {
  const auto longs = at::TensorOptions(at::kLong).device(device);
  const int64_t columns = std::max<int64_t>(1, capacity);
  lengths_ = at::zeros({batch}, longs);
  tokens_ = at::zeros({batch, columns}, longs.dtype(at::kInt));
  frames_ = at::zeros_like(tokens_);
  if (with_durations) durations_ = at::zeros_like(tokens_);
  scores_ = at::zeros({batch}, longs.dtype(at::kFloat));
  nan_ = at::zeros({batch}, longs.dtype(at::kBool));
  last_frame_ = at::full({batch}, -1, longs);
  run_ = at::zeros({batch}, longs);
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
  // The slot at a row's length is free in every row: written unconditionally, counted by the mask.
  const at::Tensor slot = lengths_.unsqueeze(1);
  const auto write = [&](at::Tensor& to, const at::Tensor& from) {
    to.scatter_(1, slot, from.to(at::kInt).unsqueeze(1));
  };
  write(tokens_, labels);
  write(frames_, frames);
  if (durations_.defined()) write(durations_, durations);
  lengths_ = lengths_ + mask;
  scores_ = at::where(mask, scores_ + scores, scores_);
  const at::Tensor run = at::where(last_frame_ == frames, run_ + 1, at::ones_like(run_));
  run_ = at::where(mask, run, run_);
  last_frame_ = at::where(mask, frames, last_frame_);
}

at::Tensor BatchedHypotheses::at_limit(const at::Tensor& time, int64_t limit) const {
  return (run_ >= limit).logical_and(last_frame_ == time);
}

Hypotheses BatchedHypotheses::release() {
  return {lengths_.to(at::kInt), std::move(tokens_), std::move(frames_),
          std::move(durations_), std::move(scores_), std::move(nan_)};
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
