// Phases where a device's memory is.
#pragma once

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "algorithms/shared/fused_beam/kernels.h"

namespace rtfx::fused_beam {

/// step(run) on `device`, with a run(phase) that does the phase there; on a GPU on its current
/// stream.
template <class Step>
void run_phases(at::Device device, const Step& step) {
  if (device.is_cpu()) {
    step([](const auto& phase) { run_on_host(phase); });
    return;
  }
  const c10::cuda::CUDAGuard guard(device);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  step([stream](const auto& phase) { launch(phase, stream); });
}

}  // namespace rtfx::fused_beam
