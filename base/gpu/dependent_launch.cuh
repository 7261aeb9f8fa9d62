// Programmatic dependent launch (CUDA C++ Programming Guide; compute capability 9.0 and later): a
// kernel that needs the one before it is set up while that one still runs, which closes the gap
// between the two. It works within a recorded graph too. Older devices keep the gap.
#pragma once

#include <cuda_runtime.h>

#include "base/gpu/check.h"

namespace rtfx {

/// Kernels launched by launch_dependent() must call this first, by every thread. On return, earlier
/// work of the stream is complete and what it wrote is visible.
__device__ inline void await_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

/// Whether the current device runs code of this program in which await_previous() waits: the device
/// and the newest architecture that was compiled for are 9.0 or later.
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
