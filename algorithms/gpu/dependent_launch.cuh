// Launches without the gap between two kernels of which the second needs the first ("programmatic
// dependent launch", CUDA C++ Programming Guide; compute capability 9.0 and later): the second is
// set up while the first runs, also within a graph that records the two. Older devices keep the
// gap.
#pragma once

#include <cuda_runtime.h>

#include "algorithms/gpu/check.h"

namespace rtfx {

/// The first thing that every thread of a kernel does which launch_dependent() launches. Before it
/// the work earlier on the stream may still be going on; after it that work is complete, and what
/// it wrote is seen.
__device__ inline void await_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

/// Whether kernels of this program run on the current device as code that knows await_previous().
inline bool dependent_launches() {
  constexpr int kBuiltFor[] = {__CUDA_ARCH_LIST__};
  int device = 0, major = 0, newest = 0;
  for (const int arch : kBuiltFor) newest = arch > newest ? arch : newest;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= 9 && newest >= 900;
}

/// Enqueues `kernel`, which begins with await_previous(). Does not wait; throws std::runtime_error.
template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared,
                      cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = dependent_launches() ? 1 : 0;
  RTFX_CUDA(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace rtfx
