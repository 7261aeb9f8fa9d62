#include "algorithms/hypotheses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace rtfx {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

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
                 [](const Hypothesis& entry) { return entry.score > kNone; });
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
