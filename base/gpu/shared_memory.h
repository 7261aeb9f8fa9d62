// Shared memory of a block of threads: how much a GPU has, and the error where that is too little.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/gpu/check.h"

namespace rtfx {

/// Bytes that a block may have on a device, the __shared__ variables of its kernel included.
struct SharedMemory {
  int64_t by_default;  // for any kernel
  int64_t on_request;  // for a kernel with cudaFuncAttributeMaxDynamicSharedMemorySize
};

/// Returns the shared memory of the current device. Throws std::runtime_error without a device.
inline SharedMemory shared_memory() {
  int device = 0, by_default = 0, on_request = 0;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&by_default, cudaDevAttrMaxSharedMemoryPerBlock, device));
  RTFX_CUDA(cudaDeviceGetAttribute(&on_request, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return {by_default, on_request};
}

/// Returns the number of bytes of the kernel's __shared__ variables.
inline int64_t own_shared_bytes(const void* kernel) {
  cudaFuncAttributes attributes;
  RTFX_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  return static_cast<int64_t>(attributes.sharedSizeBytes);
}

/// Returns the largest number of bytes that a launch of the kernel may request beyond its
/// __shared__ variables.
inline int64_t most_launch_bytes(const void* kernel) {
  return shared_memory().on_request - own_shared_bytes(kernel);
}

/// Allows launches of the kernel to request `bytes` bytes beyond its __shared__ variables. The
/// limit belongs to the kernel. So one for a single launch might be too low for that of another
/// thread.
inline void allow_launch_bytes(const void* kernel, int64_t bytes) {
  RTFX_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)));
}

/// Throws UserError if `needed` bytes are more than `available`. `where` is the place in the
/// message. `what` names what needs the memory, such as "a beam of 9". `remedy` tells the user how
/// to need less.
inline void require_shared_memory(std::string_view where, std::string_view what, int64_t needed,
                                  int64_t available, std::string_view remedy) {
  if (needed <= available) return;
  throw UserError(where,
                  std::string(what) + " needs " + std::to_string(needed) +
                      " bytes of a block's shared memory, of which this GPU has " +
                      std::to_string(available),
                  remedy);
}

}  // namespace rtfx
