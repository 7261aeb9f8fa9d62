#include <cuda_runtime.h>

#include "algorithms/gpu/cuda_block.cuh"
#include "algorithms/shared/ngram_lm/view.h"
#include "base/gpu/check.h"
#include "base/gpu/rounding.h"

namespace rtfx {
namespace {

constexpr int kThreads = 256;

__global__ void advance_kernel(NgramView lm, const int32_t* states, float* scores, int32_t* next) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * lm.vocabulary;
  advance_row(CudaBlock<kThreads>{}, lm, states[blockIdx.x], scores + row,
              next == nullptr ? nullptr : next + row);
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
  const auto blocks = static_cast<unsigned>(ceil_div<int64_t>(cells, kThreads));
  lookup_kernel<<<blocks, kThreads, 0, stream>>>(lm, states, labels, cells, columns, scores, next);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
