#include "algorithms/gpu/new_stream.h"

#include <c10/cuda/CUDAGuard.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include "base/gpu/check.h"

namespace rtfx {

c10::cuda::CUDAStream new_stream(c10::DeviceIndex gpu, const char* name, bool high_priority) {
  const c10::cuda::CUDAGuard guard(gpu);
  int least = 0, greatest = 0;
  RTFX_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  RTFX_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                         high_priority ? greatest : least));
  nvtxNameCudaStreamA(stream, name);
  return c10::cuda::getStreamFromExternal(stream, gpu);
}

}  // namespace rtfx
