#include "algorithms/wfst/wfst_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "models/acoustic_model.h"

namespace rtfx {

at::Tensor scaled_log_probs(const AcousticModel& model, const EncodedBatch& batch,
                            double acoustic_scale) {
  at::Tensor lp = model.ctc_head->logits(batch.frames).to(at::kFloat).log_softmax(2);
  return lp.mul_(acoustic_scale).contiguous();
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
