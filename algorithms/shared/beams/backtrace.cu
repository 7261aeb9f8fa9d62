#include <cuda_runtime.h>

#include "algorithms/shared/beams/backtrace.h"
#include "base/gpu/check.h"
#include "base/gpu/rounding.h"

namespace rtfx {
namespace {

constexpr int64_t kThreads = 64;  // a small number spreads rows over the multiprocessors

__global__ void backtrace_kernel(BacktraceArrays arrays) {
  const int64_t row = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (row >= arrays.batch * arrays.nbest) return;
  trace_back(arrays, row / arrays.nbest, row % arrays.nbest);
}

}  // namespace

void launch_backtrace(const BacktraceArrays& arrays, cudaStream_t stream) {
  const int64_t rows = arrays.batch * arrays.nbest;
  if (rows == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(rows, kThreads));
  backtrace_kernel<<<blocks, kThreads, 0, stream>>>(arrays);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
