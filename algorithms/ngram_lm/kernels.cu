#include <cuda_runtime.h>

#include "algorithms/cuda_graphs/check.h"
#include "algorithms/ngram_lm/kernels.h"

namespace rtfx {
namespace {

constexpr int kThreads = 256;

/// All tokens from the shortest context, then those that longer and longer contexts know, over
/// them.
__global__ void advance_kernel(NgramView lm, const int32_t* states, float* scores, int32_t* next) {
  __shared__ int32_t begins[kMaxLmOrder], ends[kMaxLmOrder];
  __shared__ float backoffs[kMaxLmOrder];
  __shared__ int contexts;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * lm.vocabulary;
  if (threadIdx.x == 0) {
    float backoff = 0;
    int depth = 0;
    for (int32_t state = states[blockIdx.x];; state = lm.backoff_to[state]) {
      const int32_t* arcs = lm.state_arcs + 2 * static_cast<int64_t>(state);
      begins[depth] = arcs[0];
      ends[depth] = arcs[1];
      backoffs[depth++] = backoff;
      if (state == 0) break;
      backoff += lm.backoff_weight[state];
    }
    contexts = depth;
  }
  __syncthreads();
  for (int depth = contexts - 1; depth >= 0; --depth) {
    for (int32_t arc = begins[depth] + threadIdx.x; arc < ends[depth]; arc += blockDim.x) {
      const int64_t cell = row + lm.arc_label[arc];
      scores[cell] = backoffs[depth] + lm.arc_weight[arc];
      if (next != nullptr) next[cell] = lm.arc_to[arc];
    }
    __syncthreads();
  }
}

__global__ void lookup_kernel(NgramView lm, const int32_t* states, const int64_t* labels,
                              int64_t cells, int64_t columns, float* scores, int32_t* next) {
  const int64_t cell = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  const Transition transition = look_up(lm, states[cell / columns], labels[cell]);
  if (scores != nullptr) scores[cell] = transition.score;
  next[cell] = transition.next;
}

}  // namespace

void launch_advance(const NgramView& lm, const int32_t* states, int64_t rows, float* scores,
                    int32_t* next, cudaStream_t stream) {
  if (rows == 0) return;
  advance_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(lm, states, scores, next);
  RTFX_CUDA(cudaGetLastError());
}

void launch_lookup(const NgramView& lm, const int32_t* states, const int64_t* labels, int64_t rows,
                   int64_t columns, float* scores, int32_t* next, cudaStream_t stream) {
  const int64_t cells = rows * columns;
  if (cells == 0) return;
  const auto blocks = static_cast<unsigned>((cells + kThreads - 1) / kThreads);
  lookup_kernel<<<blocks, kThreads, 0, stream>>>(lm, states, labels, cells, columns, scores, next);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
