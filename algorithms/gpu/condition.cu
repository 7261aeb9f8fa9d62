#include <cuda_runtime.h>

#include "algorithms/gpu/condition.h"
#include "base/gpu/check.h"

namespace rtfx {
namespace {

__global__ void set_condition_kernel(cudaGraphConditionalHandle condition, const bool* flag) {
  cudaGraphSetConditional(condition, *flag);
}

}  // namespace

void set_condition(cudaGraphConditionalHandle condition, const bool* flag, cudaStream_t stream) {
  set_condition_kernel<<<1, 1, 0, stream>>>(condition, flag);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx
