// Shared memory of a block of threads: how much a GPU has, and the error where that is too little.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

namespace rtfx {

/// Bytes that a block may have on a device, the __shared__ variables of its kernel included.
struct SharedMemory {
  int64_t by_default;  // for any kernel
  int64_t on_request;  // for a kernel with cudaFuncAttributeMaxDynamicSharedMemorySize
};

/// Returns the shared memory of the current device. Throws std::runtime_error without a device.
SharedMemory shared_memory();

/// Returns the number of bytes of the kernel's __shared__ variables.
int64_t own_shared_bytes(const void* kernel);

/// Returns the largest number of bytes that a launch of the kernel may request beyond its
/// __shared__ variables.
int64_t most_launch_bytes(const void* kernel);

/// Allows launches of the kernel to request `bytes` bytes beyond its __shared__ variables.
void allow_launch_bytes(const void* kernel, int64_t bytes);

/// Throws UserError if `needed` bytes are more than `available`. `where` is the place in the
/// message. `what` names what needs the memory, such as "a beam of 9". `remedy` tells the user how
/// to need less.
void require_shared_memory(std::string_view where, std::string_view what, int64_t needed,
                           int64_t available, std::string_view remedy);

}  // namespace rtfx
