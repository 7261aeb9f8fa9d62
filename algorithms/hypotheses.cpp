#include "algorithms/hypotheses.h"

#include <ATen/ATen.h>

namespace rtfx {
namespace {

std::vector<int32_t> row(const at::Tensor& values, int64_t index, int64_t length) {
  if (length == 0) return {};
  const int32_t* begin = values.const_data_ptr<int32_t>() + index * values.size(1);
  return {begin, begin + length};
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

std::vector<Hypothesis> Hypotheses::to_host() const {
  const auto fetch = [](const at::Tensor& t) { return t.to(at::kCPU).contiguous(); };
  const at::Tensor host_lengths = fetch(lengths), host_scores = fetch(scores),
                   host_nan = fetch(nan);
  // Copy only the columns in use: capacity may be far above the longest hypothesis.
  const int64_t longest = host_lengths.numel() > 0 ? host_lengths.max().item<int64_t>() : 0;
  const auto fetch_columns = [&](const at::Tensor& t) { return fetch(t.narrow(1, 0, longest)); };
  const at::Tensor host_tokens = fetch_columns(tokens), host_frames = fetch_columns(frames);
  const at::Tensor host_durations = durations.defined() ? fetch_columns(durations) : at::Tensor();

  std::vector<Hypothesis> result(static_cast<size_t>(host_lengths.size(0)));
  for (size_t b = 0; b < result.size(); ++b) {
    const auto i = static_cast<int64_t>(b);
    const int64_t length = host_lengths.const_data_ptr<int32_t>()[b];
    result[b].tokens = row(host_tokens, i, length);
    result[b].frames = row(host_frames, i, length);
    if (host_durations.defined()) result[b].durations = row(host_durations, i, length);
    result[b].score = host_scores.const_data_ptr<float>()[b];
    result[b].nan = host_nan.const_data_ptr<bool>()[b];
  }
  return result;
}

}  // namespace rtfx
