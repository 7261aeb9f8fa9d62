#include "algorithms/hypotheses_on_host.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/log_zero.h"
#include "algorithms/nbest_risk.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

constexpr auto kIntBytes = static_cast<int64_t>(sizeof(int32_t));

/// Results up to this size are copied whole. Asking for the longest row first would cost a trip to
/// the device and back.
constexpr int64_t kOneTripBytes = 1 << 20;

/// Returns where the memory of a tensor ends in its storage, in bytes.
int64_t end_of(const at::Tensor& t) {
  if (t.numel() == 0) return 0;
  int64_t last = t.storage_offset();
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return (last + 1) * static_cast<int64_t>(t.element_size());
}

/// Waits for the device.
at::Tensor copied_to_host(const at::Tensor& values) {
  const at::Device device = values.device();
  if (device.is_cpu()) return values.clone();
  const at::Tensor host = at::empty_like(values, at::TensorOptions(at::kCPU).pinned_memory(true));
  host.copy_(values, /*non_blocking=*/true);
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  return host;
}

const int32_t* place(const at::Tensor& values, int64_t b, int64_t n) {
  return data_of<int32_t>(values) + b * values.stride(0) + n * values.stride(1);
}

/// Returns words[index], which belong to row `row`.
template <class Words>
const Words& words_at(const std::vector<Words>& words, int64_t index, int64_t row,
                      const char* name) {
  if (index >= std::ssize(words))
    throw WrongResult(
        row, fmt::format("`{}` has {} entries, not {} or more", name, words.size(), index + 1));
  return words[static_cast<size_t>(index)];
}

}  // namespace

std::optional<CommonBlock> CommonBlock::find(const std::vector<at::Tensor>& tensors) {
  const at::Tensor* first = nullptr;
  int64_t end = 0;
  for (const at::Tensor& t : tensors) {
    if (!t.defined()) continue;
    if (first == nullptr) first = &t;
    if (!t.is_alias_of(*first)) return std::nullopt;
    end = std::max(end, end_of(t));
  }
  CommonBlock block;
  block.bytes_ = at::empty({0}, first->options().dtype(at::kByte));
  block.bytes_.set_(first->storage(), 0, {end}, {1});
  return block;
}

at::Tensor CommonBlock::view_in(const at::Tensor& copy, const at::Tensor& tensor) {
  at::Tensor view = at::empty({0}, copy.options().dtype(tensor.scalar_type()));
  return view.set_(copy.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

HostLists::HostLists(const Hypotheses& hypotheses)
    : entries_(hypotheses.nbest), nan_(hypotheses.nan) {
  if (!entries_.defined()) {
    const auto one = [](const at::Tensor& t) { return t.defined() ? t.unsqueeze(1) : t; };
    entries_ = {one(hypotheses.lengths), one(hypotheses.tokens), one(hypotheses.frames),
                one(hypotheses.durations), one(hypotheses.scores)};
  }
  room_ = entries_.tokens.size(2);
}

std::vector<at::Tensor*> HostLists::tensors() {
  std::vector<at::Tensor*> all = {&entries_.lengths, &entries_.scores, &nan_, &entries_.tokens,
                                  &entries_.frames};
  if (entries_.durations.defined()) all.push_back(&entries_.durations);
  return all;
}

void HostLists::copy_to_host() {
  if (nan_.is_cpu() || copy_block()) return;
  const int64_t slots = entries_.tokens.numel() * (entries_.durations.defined() ? 3 : 2);
  copy_slots(slots * kIntBytes <= kOneTripBytes
                 ? room_
                 : std::clamp<int64_t>(entries_.lengths.max().item<int32_t>(), 0, room_));
}

bool HostLists::copy_block() {
  std::vector<at::Tensor> views;
  for (const at::Tensor* t : tensors()) views.push_back(*t);
  const auto block = CommonBlock::find(views);
  if (!block || block->bytes().numel() > kOneTripBytes) return false;
  const at::Tensor host = copied_to_host(block->bytes());
  for (at::Tensor* t : tensors()) *t = CommonBlock::view_in(host, *t);
  return true;
}

void HostLists::copy_slots(int64_t longest) {
  // Each tensor is copied as bytes, [B, N, 4] or [B, N, 4 * longest], so types do not matter and
  // nothing need be contiguous. The NaN mark of a row stands four times in each of its entries.
  std::vector<at::Tensor> parts;
  const auto add = [&](const at::Tensor& values) { parts.push_back(values.view(at::kByte)); };
  add(entries_.lengths.unsqueeze(2));
  add(entries_.scores.unsqueeze(2));
  parts.push_back(nan_.view(at::kByte).view({-1, 1, 1}).expand({batch(), size(), kIntBytes}));
  for (const at::Tensor& t : {entries_.tokens, entries_.frames, entries_.durations})
    if (longest > 0 && t.defined()) add(t.narrow(2, 0, longest));
  const at::Tensor host = copied_to_host(at::cat(parts, 2)).view(at::kInt);

  entries_.lengths = host.select(2, 0);
  entries_.scores = host.select(2, 1).view(at::kFloat);
  nan_ = host.select(2, 2).select(1, 0) != 0;
  int64_t column = 3;
  for (at::Tensor* t : {&entries_.tokens, &entries_.frames, &entries_.durations}) {
    if (!t->defined()) continue;
    *t = host.narrow(2, column, longest);
    column += longest;
  }
}

float HostLists::score(int64_t b, int64_t n) const {
  const at::Tensor& all = entries_.scores;
  return data_of<float>(all)[b * all.stride(0) + n * all.stride(1)];
}

Hypothesis HostLists::entry(int64_t b, int64_t n) const {
  const int32_t length = *place(entries_.lengths, b, n);
  if (length < 0 || length > room_)
    throw WrongResult(b,
                      fmt::format("its length is {}, there is room for {} tokens", length, room_));
  const auto slots = [&](const at::Tensor& values) -> std::vector<int32_t> {
    if (!values.defined() || length == 0) return {};
    const int32_t* begin = place(values, b, n);
    return {begin, begin + length};
  };
  return {slots(entries_.tokens), slots(entries_.frames), slots(entries_.durations), score(b, n),
          data_of<bool>(nan_)[b * nan_.stride(0)]};
}

Hypotheses Hypotheses::clone() const {
  const auto block =
      CommonBlock::find({lengths, tokens, frames, durations, scores, nan, nbest.lengths,
                         nbest.tokens, nbest.frames, nbest.durations, nbest.scores});
  if (!block) return each([](const at::Tensor& t) { return t.clone(); });
  const at::Tensor copy = block->bytes().clone();
  return each([&](const at::Tensor& t) { return CommonBlock::view_in(copy, t); });
}

std::vector<Hypothesis> Hypotheses::to_host() const {
  HostLists lists(*this);
  lists.copy_to_host();
  std::vector<Hypothesis> result;
  for (int64_t b = 0; b < lists.batch(); ++b) {
    Hypothesis best = lists.entry(b, 0);
    if (words && !best.nan) best.words = words_at(words->rows, b, b, "words.rows");
    for (int64_t n = 0; nbest.defined() && n < lists.size(); ++n) {
      if (lists.score(b, n) == kLogZero) continue;
      best.nbest.push_back(lists.entry(b, n));
      if (!words) continue;
      const auto& of_row = words_at(words->lists, b, b, "words.lists");
      best.nbest.back().words = words_at(of_row, n, b, "words.lists of the row");
    }
    if (risk) risk->sort(best);
    result.push_back(std::move(best));
  }
  return result;
}

}  // namespace rtfx
