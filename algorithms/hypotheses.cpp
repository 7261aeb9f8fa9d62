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
  // Each copy waits for the device, so there are two: how much there is, then that much.
  const at::Tensor head =
      at::stack({lengths, scores.view(at::kInt), nan.to(at::kInt)}).to(at::kCPU);
  const at::Tensor host_lengths = head[0], host_scores = head[1].view(at::kFloat),
                   host_nan = head[2];
  const int64_t longest = host_lengths.numel() > 0 ? host_lengths.max().item<int64_t>() : 0;
  std::vector<at::Tensor> columns;
  for (const at::Tensor* values : {&tokens, &frames, &durations}) {
    if (values->defined()) columns.push_back(values->narrow(1, 0, longest));
  }
  const at::Tensor body = at::stack(columns).to(at::kCPU);
  const at::Tensor host_tokens = body[0], host_frames = body[1],
                   host_durations = durations.defined() ? body[2] : at::Tensor();

  std::vector<Hypothesis> result(static_cast<size_t>(host_lengths.size(0)));
  for (size_t b = 0; b < result.size(); ++b) {
    const auto i = static_cast<int64_t>(b);
    const int64_t length = host_lengths.const_data_ptr<int32_t>()[b];
    result[b].tokens = row(host_tokens, i, length);
    result[b].frames = row(host_frames, i, length);
    if (host_durations.defined()) result[b].durations = row(host_durations, i, length);
    result[b].score = host_scores.const_data_ptr<float>()[b];
    result[b].nan = host_nan.const_data_ptr<int32_t>()[b] != 0;
  }
  return result;
}

}  // namespace rtfx
