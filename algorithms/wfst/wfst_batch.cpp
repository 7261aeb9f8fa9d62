#include "algorithms/wfst/wfst_batch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "algorithms/common/batched_hypotheses.h"
#include "models/acoustic_model.h"

namespace rtfx {

at::Tensor scaled_log_probs(const AcousticModel& model, const EncodedBatch& batch,
                            double acoustic_scale) {
  at::Tensor lp = model.ctc_head->logits(batch.frames).to(at::kFloat).log_softmax(2);
  return lp.mul_(acoustic_scale).contiguous();
}

HostEmissions host_emissions(const AcousticModel& model, const EncodedBatch& batch,
                             double acoustic_scale, HostReads& reads) {
  at::Tensor lp = scaled_log_probs(model, batch, acoustic_scale);
  if (lp.is_cuda()) {
    const at::Tensor host =
        at::empty(lp.sizes(), lp.options().device(at::kCPU).pinned_memory(true));
    reads.copy(lp, host);
    lp = host;
  }
  // A NaN or +infinity makes the whole frame NaN.
  return {lp, rows_with_nan(lp.narrow(2, 0, 1), at::tensor(batch.lengths_host, at::kLong))};
}

void for_each_utterance(const std::vector<int64_t>& lengths, size_t threads,
                        const std::function<void(size_t thread, size_t row)>& search) {
  // Long utterances first, so that none is left for the end.
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::atomic<size_t> next = 0;
  at::parallel_for(0, static_cast<int64_t>(threads), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread)
      for (size_t i = next++; i < order.size(); i = next++)
        search(static_cast<size_t>(thread), order[i]);
  });
}

Hypotheses wfst_hypotheses(const std::vector<WfstPath>& paths, const at::Tensor& nan,
                           at::Device device) {
  const auto batch = static_cast<int64_t>(paths.size());
  size_t longest = 0;
  for (const WfstPath& path : paths) longest = std::max(longest, path.tokens.size());
  Hypotheses h;
  h.lengths = at::zeros({batch}, at::kInt);
  h.tokens = at::zeros({batch, static_cast<int64_t>(longest)}, at::kInt);
  h.frames = at::zeros_like(h.tokens);
  h.scores = at::zeros({batch}, at::kFloat);
  h.nan = nan.clone();
  for (size_t b = 0; b < paths.size(); ++b) {
    const WfstPath& path = paths[b];
    if (!path.alive) h.nan.mutable_data_ptr<bool>()[b] = true;
    if (h.nan.const_data_ptr<bool>()[b]) continue;
    h.lengths.mutable_data_ptr<int32_t>()[b] = static_cast<int32_t>(path.tokens.size());
    h.scores.mutable_data_ptr<float>()[b] = static_cast<float>(-path.cost);
    std::copy(path.tokens.begin(), path.tokens.end(),
              h.tokens.mutable_data_ptr<int32_t>() + b * longest);
    std::copy(path.token_frames.begin(), path.token_frames.end(),
              h.frames.mutable_data_ptr<int32_t>() + b * longest);
  }
  if (!device.is_cuda()) return h;
  return h.each([&](const at::Tensor& t) {  // without waiting
    return t.pin_memory().to(device, /*non_blocking=*/true);
  });
}

}  // namespace rtfx
