#include "algorithms/gpu/shared_memory.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/gpu/check.h"

namespace rtfx {

SharedMemory shared_memory() {
  int device = 0, by_default = 0, on_request = 0;
  RTFX_CUDA(cudaGetDevice(&device));
  RTFX_CUDA(cudaDeviceGetAttribute(&by_default, cudaDevAttrMaxSharedMemoryPerBlock, device));
  RTFX_CUDA(cudaDeviceGetAttribute(&on_request, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return {by_default, on_request};
}

int64_t own_shared_bytes(const void* kernel) {
  cudaFuncAttributes attributes;
  RTFX_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  return static_cast<int64_t>(attributes.sharedSizeBytes);
}

int64_t most_launch_bytes(const void* kernel) {
  return shared_memory().on_request - own_shared_bytes(kernel);
}

void allow_launch_bytes(const void* kernel, int64_t bytes) {
  RTFX_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)));
}

void require_shared_memory(std::string_view where, std::string_view what, int64_t needed,
                           int64_t available, std::string_view remedy) {
  if (needed <= available) return;
  throw UserError(where,
                  fmt::format("{} needs {} bytes of a block's shared memory, of which this GPU has "
                              "{}",
                              what, needed, available),
                  remedy);
}

}  // namespace rtfx
