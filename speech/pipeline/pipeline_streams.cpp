#include "speech/pipeline/pipeline_streams.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>

#include "base/gpu/check.h"

namespace rtfx {
namespace {

c10::Stream new_stream(at::DeviceIndex gpu, bool high_priority) {
  const c10::cuda::CUDAGuard guard(gpu);
  int least = 0, greatest = 0;
  RTFX_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  RTFX_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                         high_priority ? greatest : least));
  return c10::cuda::getStreamFromExternal(stream, gpu).unwrap();
}

}  // namespace

PipelineStreams::PipelineStreams(at::DeviceIndex gpu)
    : copy(new_stream(gpu, false)),
      encode(new_stream(gpu, false)),
      decode(new_stream(gpu, true)),
      finish(new_stream(gpu, true)) {}

const PipelineStreams* PipelineStreams::of(at::Device device) {
  if (!device.is_cuda()) return nullptr;
  static std::map<at::DeviceIndex, const PipelineStreams> all;
  return &all.try_emplace(device.index(), device.index()).first->second;
}

}  // namespace rtfx
