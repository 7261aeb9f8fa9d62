#include <cuda_runtime.h>

#include <algorithm>

#include "algorithms/decoders/greedy/fused_looping/advance.cuh"
#include "algorithms/decoders/greedy/fused_looping/element_kernels.h"
#include "algorithms/decoders/greedy/fused_looping/kernels.h"
#include "algorithms/gpu/shared_memory.h"
#include "base/gpu/check.h"
#include "base/gpu/dependent_launch.cuh"

namespace rtfx::fused {
namespace {

__global__ void __launch_bounds__(kThreads)
    set_kernel(Search* search, const __grid_constant__ Search value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *search = value;
  start_states(value);
}

__global__ void set_condition_kernel(const Search* search, cudaGraphConditionalHandle any_active) {
  cudaGraphSetConditional(any_active, search->rows.counts[kActive] > 0);
}

__global__ void __launch_bounds__(kThreads)
    advance_kernel(const Search* search, cudaGraphConditionalHandle any_active) {
  await_previous();
  extern __shared__ uint4 memory[];
  advance(*search, search->rows, true, *reinterpret_cast<Scratch*>(memory));
  if (threadIdx.x == 0 && any_active != 0)
    cudaGraphSetConditional(any_active, search->rows.counts[kActive] > 0);
}

__global__ void finish_kernel(const Search* search) {
  save_states(*search);
  finish(*search, search->rows);
}

// ---------------------------------------------------------------------------------------------------

int multiprocessors() {
  int device = 0, count = 0;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

ElementKernels kernels_of(Precision precision) {
  return with_type(precision, [](auto type) { return element_kernels<decltype(type)>(); });
}

template <class... Arguments>
const void* pointer(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

PersistentKernel::PersistentKernel(Precision precision) : blocks_(multiprocessors()) {
  const ElementKernels all = kernels_of(precision);
  kernels_[0] = pointer(all.search[0]);
  kernels_[1] = pointer(all.search[1]);
  shared_bytes_ =
      static_cast<int>(std::min(most_launch_bytes(kernels_[0]), most_launch_bytes(kernels_[1])));
  for (const void* kernel : kernels_) allow_launch_bytes(kernel, shared_bytes_);
}

int64_t PersistentKernel::max_rows() const {
  return most_rows(shared_bytes_ - static_cast<int64_t>(sizeof(Scratch)));
}

void PersistentKernel::launch(const Search& search, cudaStream_t stream) const {
  // Cooperative: the barriers need all blocks at once.
  const void* arguments[] = {&search, &shared_bytes_};
  const void* kernel = kernels_[search.bias.any()];
  RTFX_CUDA(cudaLaunchCooperativeKernel(kernel, blocks_, kThreads, const_cast<void**>(arguments),
                                        shared_bytes_, stream));
}

StepKernels::StepKernels(Precision precision, int layers)
    : layers_(layers), blocks_(multiprocessors()), kernels_(kernels_of(precision)) {
  for (const void* kernel : {pointer(&advance_kernel), pointer(kernels_.joint),
                             pointer(kernels_.lstm), pointer(kernels_.project)})
    allow_launch_bytes(kernel, sizeof(Scratch));
}

void StepKernels::set(Search* search, const Search& value, cudaStream_t stream) const {
  set_kernel<<<blocks_, kThreads, 0, stream>>>(search, value);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::start(const Search* search, cudaStream_t stream) const {
  kernels_.start<<<blocks_, kThreads, 0, stream>>>(search);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::set_condition(const Search* search, cudaGraphConditionalHandle any_active,
                                cudaStream_t stream) {
  set_condition_kernel<<<1, 1, 0, stream>>>(search, any_active);
  RTFX_CUDA(cudaGetLastError());
}

void StepKernels::evaluate_joint(const Search* search, cudaStream_t stream) const {
  launch_dependent(kernels_.joint, blocks_, kThreads, sizeof(Scratch), stream, search);
}

void StepKernels::advance(const Search* search, cudaGraphConditionalHandle any_active,
                          cudaStream_t stream) const {
  launch_dependent(advance_kernel, 1, kThreads, sizeof(Scratch), stream, search, any_active);
}

void StepKernels::predict(const Search* search, cudaStream_t stream) const {
  if (layers_ == 0) {
    launch_dependent(kernels_.look_up, blocks_, kThreads, 0, stream, search);
    return;
  }
  for (int layer = 0; layer < layers_; ++layer)
    launch_dependent(kernels_.lstm, blocks_, kThreads, sizeof(Scratch), stream, search, layer);
  launch_dependent(kernels_.project, blocks_, kThreads, sizeof(Scratch), stream, search);
}

void StepKernels::finish(const Search* search, cudaStream_t stream) const {
  finish_kernel<<<1, kThreads, 0, stream>>>(search);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace rtfx::fused
