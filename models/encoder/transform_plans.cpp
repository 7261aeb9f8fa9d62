#include "models/encoder/transform_plans.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace rtfx {

void TransformPlans::make(c10::Device device, int64_t length, int64_t count,
                          const std::function<void()>& transform) {
  using c10::cuda::CaptureStatus;
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != CaptureStatus::None) return;
  const std::lock_guard lock(mutex_);
  const auto key = std::make_tuple(device.index(), length, count);
  if (made_.contains(key)) return;
  const c10::cuda::CUDAStream stream = c10::cuda::getDefaultCUDAStream(device.index());
  const c10::cuda::CUDAStreamGuard guard(stream);
  transform();
  stream.synchronize();
  made_.insert(key);  // not before, since the transform may run out of memory
}

}  // namespace rtfx
