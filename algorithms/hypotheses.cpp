#include "algorithms/hypotheses.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <iterator>

#include "algorithms/log_zero.h"

namespace rtfx {
namespace {

/// Up to this size every slot of every row is copied, which saves asking for the longest row first:
/// a trip to the device and back.
constexpr int64_t kOneTripBytes = 1 << 20;

/// All of `tensors`, of one device, in one copy. Those with larger elements come first.
std::vector<at::Tensor> copied_to_host(const std::vector<at::Tensor>& tensors) {
  const at::Device device = tensors[0].device();
  std::vector<at::Tensor> bytes;
  for (const at::Tensor& t : tensors) bytes.push_back(t.contiguous().flatten().view(at::kByte));
  at::Tensor all = at::cat(bytes);
  if (!device.is_cpu()) {
    const at::Tensor host = at::empty_like(all, at::TensorOptions(at::kCPU).pinned_memory(true));
    host.copy_(all, /*non_blocking=*/true);
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
    all = host;
  }
  std::vector<at::Tensor> result;
  int64_t at = 0;
  for (const at::Tensor& t : tensors) {
    const auto count = static_cast<int64_t>(t.nbytes());
    result.push_back(all.narrow(0, at, count).view(t.scalar_type()).view(t.sizes()));
    at += count;
  }
  return result;
}

std::vector<int32_t> row(const at::Tensor& values, int64_t index, int64_t length) {
  if (length == 0) return {};
  const int32_t* begin = values.const_data_ptr<int32_t>() + index * values.size(1);
  return {begin, begin + length};
}

/// All entries as rows of one batch; then each row's list, of which the first is the row's result.
std::vector<Hypothesis> nbest_to_host(const NBest& nbest, const at::Tensor& nan) {
  const int64_t batch = nbest.scores.size(0), n = nbest.scores.size(1);
  const Hypotheses flat =
      Hypotheses{nbest.lengths,   nbest.tokens, nbest.frames,
                 nbest.durations, nbest.scores, nan.unsqueeze(1).expand({-1, n})}
          .each([](const at::Tensor& t) { return t.flatten(0, 1); });
  const std::vector<Hypothesis> entries = flat.to_host();
  std::vector<Hypothesis> result;
  for (int64_t b = 0; b < batch; ++b) {
    const auto first = entries.begin() + b * n;
    Hypothesis best = *first;
    std::copy_if(first, first + n, std::back_inserter(best.nbest),
                 [](const Hypothesis& entry) { return entry.score > kLogZero; });
    result.push_back(std::move(best));
  }
  return result;
}

}  // namespace

Hypotheses Hypotheses::empty(int64_t batch, at::Device device) {
  const auto ints = at::TensorOptions(at::kInt).device(device);
  return {at::zeros({batch}, ints),
          at::zeros({batch, 0}, ints),
          at::zeros({batch, 0}, ints),
          {},
          at::zeros({batch}, ints.dtype(at::kFloat)),
          at::zeros({batch}, ints.dtype(at::kBool))};
}

Hypotheses Hypotheses::each(const std::function<at::Tensor(const at::Tensor&)>& function) const {
  const auto apply = [&](const at::Tensor& t) { return t.defined() ? function(t) : t; };
  return {apply(lengths),
          apply(tokens),
          apply(frames),
          apply(durations),
          apply(scores),
          apply(nan),
          {apply(nbest.lengths), apply(nbest.tokens), apply(nbest.frames), apply(nbest.durations),
           apply(nbest.scores)}};
}

std::vector<Hypothesis> Hypotheses::to_host() const {
  if (nbest.defined()) return nbest_to_host(nbest, nan);
  const int64_t slots = tokens.numel() * (durations.defined() ? 3 : 2);
  const int64_t longest = slots * static_cast<int64_t>(sizeof(int32_t)) <= kOneTripBytes
                              ? tokens.size(1)
                              : lengths.max().item<int32_t>();
  const auto head_of = [&](const at::Tensor& values) { return values.narrow(1, 0, longest); };
  std::vector<at::Tensor> parts = {lengths, scores, head_of(tokens), head_of(frames)};
  if (durations.defined()) parts.push_back(head_of(durations));
  parts.push_back(nan);
  parts = copied_to_host(parts);

  std::vector<Hypothesis> result(static_cast<size_t>(lengths.size(0)));
  for (size_t b = 0; b < result.size(); ++b) {
    const auto i = static_cast<int64_t>(b);
    const int64_t length = parts[0].const_data_ptr<int32_t>()[b];
    result[b].score = parts[1].const_data_ptr<float>()[b];
    result[b].tokens = row(parts[2], i, length);
    result[b].frames = row(parts[3], i, length);
    if (durations.defined()) result[b].durations = row(parts[4], i, length);
    result[b].nan = parts.back().const_data_ptr<bool>()[b];
  }
  return result;
}

}  // namespace rtfx
