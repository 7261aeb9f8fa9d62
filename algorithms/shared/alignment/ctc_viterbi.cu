#include <cuda_runtime.h>

#include <cmath>

#include "algorithms/shared/alignment/ctc_viterbi.h"
#include "base/gpu/check.h"
#include "base/gpu/rounding.h"

namespace rtfx {
namespace {

constexpr int64_t kMostThreads = 512;

/// One block aligns one row. Threads share the columns of a frame, and the first one traces back.
__global__ void align_kernel(CtcBatchArrays a) {
  extern __shared__ CtcColumn shared[];
  const int64_t row = blockIdx.x;
  const int32_t length = a.lengths[row];
  const int32_t columns = a.text_lengths[row] + 1;
  const float* const emissions = a.emissions + row * a.frames * a.labels;
  const int32_t* const text = a.texts + row * a.tokens;
  uint8_t* const from = a.from + row * a.frames * (a.tokens + 1);
  CtcColumn* const both = a.columns ? a.columns + row * 2 * (a.tokens + 1) : shared;
  CtcColumn* const buffers[2] = {both, both + (a.tokens + 1)};

  // Before the first frame the path stands behind no token.
  for (int32_t u = threadIdx.x; u < columns; u += blockDim.x)
    buffers[0][u] = {u == 0 ? 0.0f : -INFINITY, -INFINITY};
  __syncthreads();
  for (int32_t t = 0; t < length; ++t) {
    const CtcColumn* const old = buffers[t % 2];
    CtcColumn* const next = buffers[(t + 1) % 2];
    const float* const at_frame = emissions + t * a.labels;
    const float blank = at_frame[a.labels - 1];
    for (int32_t u = threadIdx.x; u < columns; u += blockDim.x) {
      const bool has_token = u > 0;
      const CtcColumn before = has_token ? old[u - 1] : CtcColumn{-INFINITY, -INFINITY};
      const bool repeats = u > 1 && text[u - 1] == text[u - 2];
      const float token = has_token ? at_frame[text[u - 1]] : 0.0f;
      uint8_t origin;
      next[u] = advance_column(old[u], before, repeats, blank, token, origin);
      from[t * (a.tokens + 1) + u] = origin;
    }
    __syncthreads();  // the next frame reads `next` and overwrites `old`
  }

  if (threadIdx.x != 0) return;
  const CtcColumn last = buffers[length % 2][columns - 1];
  CtcState state = last_state(last, columns);
  a.scores[row] = state.on_token ? last.token : last.blank;
  for (int32_t t = length - 1; t >= 0; --t) {
    const int32_t place = state.place();
    const int64_t label = place < 0 ? a.labels - 1 : text[place];
    a.places[row * a.frames + t] = place;
    a.logprobs[row * a.frames + t] = emissions[t * a.labels + label];
    state = state_before(state, from[t * (a.tokens + 1) + state.column]);
  }
}

}  // namespace

void launch_ctc_alignment(const CtcBatchArrays& arrays, cudaStream_t stream) {
  if (arrays.batch == 0) return;
  const int64_t whole_warps = ceil_div(arrays.tokens + 1, int64_t{kWarpSize}) * kWarpSize;
  const auto threads =
      static_cast<unsigned>(whole_warps < kMostThreads ? whole_warps : kMostThreads);
  const auto shared =
      static_cast<size_t>(arrays.columns == nullptr ? ctc_column_bytes(arrays.tokens) : 0);
  align_kernel<<<static_cast<unsigned>(arrays.batch), threads, shared, stream>>>(arrays);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
