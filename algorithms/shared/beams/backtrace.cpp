#include "algorithms/shared/beams/backtrace.h"

#include <c10/cuda/CUDAStream.h>

#include "algorithms/shared/beams/backtrace_walk.h"
#include "algorithms/shared/beams/beam_hypotheses.h"

namespace rtfx {

void backtrace(const BeamHypotheses& beams, const at::Tensor& order, NBest& list) {
  const bool tdt = beams.durations.defined();
  const BacktraceArrays arrays{
      beams.labels.const_data_ptr<int32_t>(),
      beams.parents.const_data_ptr<int32_t>(),
      tdt ? beams.durations.const_data_ptr<int32_t>() : nullptr,
      beams.column.const_data_ptr<int64_t>(),
      beams.lengths.const_data_ptr<int64_t>(),
      beams.time.const_data_ptr<int64_t>(),
      order.const_data_ptr<int64_t>(),
      list.tokens.mutable_data_ptr<int32_t>(),
      list.frames.mutable_data_ptr<int32_t>(),
      tdt ? list.durations.mutable_data_ptr<int32_t>() : nullptr,
      beams.batch,
      beams.beam,
      order.size(1),
      list.tokens.size(2),
      static_cast<int32_t>(beams.blank),
      beams.lattice == Lattice::ctc,
  };
  if (order.is_cuda()) {
    launch_backtrace(arrays, c10::cuda::getCurrentCUDAStream(order.device().index()).stream());
    return;
  }
  for (int64_t b = 0; b < arrays.batch; ++b)
    for (int64_t n = 0; n < arrays.nbest; ++n) backtrace_walk(arrays, b, n);
}

}  // namespace rtfx
