// Programmatic dependent launch closes the gap between two kernels (CUDA C++ Programming Guide;
// compute capability 9.0 and later). A kernel that needs the one before it is set up while that one
// still runs. It works within a recorded graph too. Older devices keep the gap.
//
// A dependent kernel may start as soon as every block of the kernel before it has called
// await_previous() or has ended. So its blocks take only room that no block of the kernel before
// needs: they come when the last wave of that kernel is resident. They hold their registers and
// shared memory while they wait, which can delay kernels of other streams.
//
// Why a wait for one kernel is a wait for all earlier work of the stream:
// - Each kernel of a stream is normal or dependent. A normal kernel, copy or memset starts after
//   the work before it has ended, whether that is a normal or a dependent kernel. The kernels of
//   libraries (cuBLASLt, cuFFT, LibTorch) are normal, or wait as ours do.
// - A dependent kernel ends after the work before it has ended, since threads of its blocks wait
//   for that before they return. If all blocks of a kernel returned without waiting, it could end
//   before the work that it should have waited for, and so could all that follows.
// - By induction, whatever ends in a stream ends after all work that was enqueued before. So
//   await_previous() returns after the end of all earlier work, and a kernel behind a dependent
//   kernel may rely on this too. This covers reads of earlier results and writes over memory that
//   earlier kernels read.
//
// Capture turns the attribute into a programmatic edge of the graph, but only between two kernels.
// A kernel without the attribute gets a full edge, as do copies, memsets and conditional nodes. The
// first kernel of a graph, of a conditional body, or behind an event of another stream has no
// programmatic edge. It waits for the full end of its predecessor, or it has none. In both cases
// await_previous() returns at once.
//
// Before await_previous(), a kernel may not even read memory that any earlier kernel of the stream
// writes, since several kernels may be waiting in a row.
#pragma once

#include <cuda_runtime.h>

#include "base/gpu/check.h"

namespace rtfx {

/// Every thread of a kernel launched by launch_dependent() must call this before it reads what
/// others wrote, before it writes, and before it returns. On return, earlier work of the stream is
/// complete and what it wrote is visible.
__device__ inline void await_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

/// Returns whether await_previous() waits on the current device. It does if both the device and the
/// newest architecture that this program was compiled for are 9.0 or later.
inline bool dependent_launches() {
  constexpr int kBuiltFor[] = {__CUDA_ARCH_LIST__};
  int device = 0, major = 0, newest = 0;
  for (const int arch : kBuiltFor) newest = arch > newest ? arch : newest;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= 9 && newest >= 900;
}

/// Enqueues `kernel`, which calls await_previous(). Does not wait; throws std::runtime_error.
template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 blocks, int threads, size_t shared,
                      cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = dependent_launches() ? 1 : 0;
  RTFX_CUDA(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace rtfx
