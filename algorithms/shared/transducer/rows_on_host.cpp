#include "algorithms/shared/transducer/rows_on_host.h"

#include <ATen/ATen.h>

#include "models/checkpoint/tensor_data.h"

namespace rtfx {

void RowsOnHost::append(HostReads& reads, const at::Tensor& mask, const Decided& decided) {
  for (size_t b = 0; b < lists_.size(); ++b) {
    const auto row = static_cast<int64_t>(b);
    if (!reads.any(mask[row])) continue;
    Hypothesis& h = lists_[b].front();
    const auto append = [&](std::vector<int32_t>& list, const at::Tensor& values) {
      list.push_back(static_cast<int32_t>(reads.integer(values[row])));
    };
    append(h.tokens, decided.labels);
    if (decided.frames.defined())
      append(h.frames, decided.frames);
    else
      h.frames.push_back(static_cast<int32_t>(decided.frame));
    if (decided.durations.defined()) append(h.durations, decided.durations);
    const at::Tensor score = reads.values(decided.scores[row].to(at::kFloat));
    h.score += *data_of<float>(score);
  }
}

}  // namespace rtfx
