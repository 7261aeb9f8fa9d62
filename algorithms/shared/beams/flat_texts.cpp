#include "algorithms/shared/beams/flat_texts.h"

#include <ATen/ATen.h>

#include "algorithms/gpu/host_read.h"

namespace rtfx {
namespace {

/// Expands slots [B, K] to indices [B, K, N] of whole texts.
at::Tensor along_texts(const at::Tensor& slots, const at::Tensor& texts) {
  return slots.unsqueeze(2).expand({-1, -1, texts.size(2)});
}

}  // namespace

FlatTexts::FlatTexts(int64_t batch, int64_t beam, int64_t capacity, bool with_durations,
                     at::Device device) {
  const auto integers = at::TensorOptions(at::kInt).device(device);
  tokens_ = at::zeros({batch, beam, capacity}, integers);
  frames_ = at::zeros_like(tokens_);
  if (with_durations) durations_ = at::zeros_like(tokens_);
  counts_ = at::zeros({3}, integers.dtype(at::kLong));
}

void FlatTexts::append(const at::Tensor& parents, const at::Tensor& labels, const at::Tensor& token,
                       const at::Tensor& lengths, const at::Tensor& times,
                       const at::Tensor& durations) {
  // Without a token, the place behind the text is written too, but it is not read.
  const at::Tensor place = lengths.unsqueeze(2);
  const auto extend = [&](at::Tensor& texts, const at::Tensor& values) {
    texts.copy_(texts.gather(1, along_texts(parents, texts)));
    texts.scatter_(2, place, at::where(token, values, 0).to(at::kInt).unsqueeze(2));
  };
  extend(tokens_, labels);
  extend(frames_, times);
  if (durations_.defined()) extend(durations_, durations);
}

at::Tensor FlatTexts::equal(const at::Tensor& lengths) const {
  const at::Tensor same_length = lengths.unsqueeze(2) == lengths.unsqueeze(1);
  const at::Tensor position = at::arange(tokens_.size(2), lengths.options());
  const at::Tensor behind = position >= lengths.unsqueeze(2);  // [B, K, N]
  const at::Tensor same = tokens_.unsqueeze(2) == tokens_.unsqueeze(1);
  return same.logical_or(behind.unsqueeze(2)).all(3).logical_and(same_length);
}

void FlatTexts::count(const at::Tensor& alive, const at::Tensor& hash, const at::Tensor& merged,
                      const at::Tensor& lengths) {
  const at::Tensor pairs = alive.unsqueeze(2).logical_and(alive.unsqueeze(1)).triu(/*diagonal=*/1);
  const at::Tensor other = pairs.logical_and(equal(lengths).logical_not());
  const at::Tensor same_hash = hash.unsqueeze(2) == hash.unsqueeze(1);
  counts_.add_(at::stack(
      {pairs.sum(), other.logical_and(same_hash).sum(), other.logical_and(merged).sum()}));
}

FlatTexts::Counts FlatTexts::counts() const {
  const AllowSync sums;
  const at::Tensor found = counts_.cpu();
  const auto value = [&](int64_t i) { return found[i].item<int64_t>(); };
  return {value(0), value(1), value(2)};
}

void FlatTexts::write(const at::Tensor& order, NBest& list) const {
  const auto take = [&](const at::Tensor& texts, at::Tensor& to) {
    const at::Tensor chosen = texts.gather(1, along_texts(order, texts));
    to.narrow(2, 0, chosen.size(2)).copy_(chosen);
  };
  take(tokens_, list.tokens);
  take(frames_, list.frames);
  if (durations_.defined()) take(durations_, list.durations);
}

}  // namespace rtfx
