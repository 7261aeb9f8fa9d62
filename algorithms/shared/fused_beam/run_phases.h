// Phases where a device's memory is: kernels on a GPU, blocks by the threads of a CPU.
#pragma once

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "algorithms/gpu/parallel.h"
#include "algorithms/gpu/shared_memory.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/fused_beam/kernels.h"

namespace rtfx::fused_beam {

/// run(phase) does the phase on `device`; on a GPU it is enqueued on the current stream.
class RunPhases {
 public:
  explicit RunPhases(at::Device device) {
    if (device.is_cuda()) guard_.set_device(device);
  }

  template <class Phase>
  void operator()(const Phase& phase) const {
    if (guard_.current_device()) {
      PhaseKernel<Phase>::launch(phase, c10::cuda::getCurrentCUDAStream().stream());
      return;
    }
    parallel_ranges(phase.blocks(), [&](int64_t begin, int64_t end) {
      std::vector<std::byte> shared(static_cast<size_t>(phase.shared_bytes()));
      SerialBlock block;
      for (int64_t i = begin; i < end; ++i) phase(block, static_cast<int32_t>(i), shared.data());
    });
  }

 private:
  c10::cuda::OptionalCUDAGuard guard_;
};

/// Throws UserError where blocks of one of the phases would share more memory than a GPU has.
/// where, what, remedy: as for require_shared_memory().
template <class... Phases>
void require_fits(at::Device device, std::string_view where, std::string_view what,
                  std::string_view remedy, const Phases&... phases) {
  if (!device.is_cuda()) return;
  const c10::cuda::CUDAGuard guard(device);
  (require_shared_memory(where, what, phases.shared_bytes(),
                         PhaseKernel<Phases>::most_shared_bytes(), remedy),
   ...);
}

}  // namespace rtfx::fused_beam
