#include "algorithms/decoders/greedy/ctc_greedy/device_collapse.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include "algorithms/decoders/greedy/ctc_greedy/collapse_kernel.h"
#include "models/checkpoint/precision_of.h"

namespace rtfx {

bool DeviceCollapse::takes(const at::Tensor& logits) {
  const at::ScalarType type = logits.scalar_type();
  return logits.is_cuda() && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
         logits.stride(2) == 1;
}

Hypotheses DeviceCollapse::operator()(const at::Tensor& logits, const at::Tensor& lengths,
                                      const at::Tensor& forbidden, CtcCarried* carried) {
  const c10::cuda::CUDAGuard guard(logits.device());
  const int64_t rows = logits.size(0), frames = logits.size(1);
  if (!finished_.defined() || finished_.size(0) < rows)
    finished_ = at::zeros({rows}, lengths.options().dtype(at::kInt));
  static_assert(sizeof(BestLabel) == sizeof(int64_t));
  const at::Tensor best = at::empty({rows, frames}, lengths.options());
  const at::Tensor lengths_in_order = lengths.contiguous();
  const at::Tensor mask = forbidden.defined() ? forbidden.contiguous() : forbidden;
  Hypotheses result =
      Hypotheses::one_block(rows, /*entries=*/1, frames, /*with_durations=*/false, logits.device());
  result.nbest = {};

  CtcCollapse c{};
  c.logits = logits.const_data_ptr();
  c.precision = precision_of(logits.scalar_type(), "ctc_greedy");
  c.row_stride = logits.stride(0);
  c.frame_stride = logits.stride(1);
  c.lengths = lengths_in_order.const_data_ptr<int64_t>();
  if (mask.defined()) c.forbidden = mask.const_data_ptr<bool>();
  c.batch = rows;
  c.frames = frames;
  c.labels = logits.size(2);
  c.best = reinterpret_cast<BestLabel*>(best.mutable_data_ptr<int64_t>());
  c.finished = reinterpret_cast<unsigned int*>(finished_.mutable_data_ptr<int32_t>());
  if (carried != nullptr) {
    c.last_label = carried->label.mutable_data_ptr<int64_t>();
    c.logprobs = carried->sum.mutable_data_ptr<int64_t>();
  }
  c.lengths_found = result.lengths.mutable_data_ptr<int32_t>();
  c.tokens = result.tokens.mutable_data_ptr<int32_t>();
  c.times = result.frames.mutable_data_ptr<int32_t>();
  c.scores = result.scores.mutable_data_ptr<float>();
  c.nan = result.nan.mutable_data_ptr<bool>();
  launch_ctc_collapse(c, c10::cuda::getCurrentCUDAStream());
  return result;
}

}  // namespace rtfx
