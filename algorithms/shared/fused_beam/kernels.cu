#include <cuda_runtime.h>

#include "algorithms/gpu/cuda_block.cuh"
#include "algorithms/shared/fused_beam/aes_phases.h"
#include "algorithms/shared/fused_beam/alsd_phases.h"
#include "algorithms/shared/fused_beam/ctc_phases.h"
#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/fused_beam/network_phases.h"
#include "base/gpu/check.h"
#include "base/gpu/shared_memory.h"

namespace rtfx::fused_beam {
namespace {

// The bound asks for one block on a multiprocessor, so that a thread may use many registers.
// Registers for loads that are in flight together matter more here than the number of blocks.
template <class Phase>
__global__ void __launch_bounds__(Phase::kThreads, 1)
    phase_kernel(const __grid_constant__ Phase phase) {
  extern __shared__ uint64_t shared[];
  CudaBlock<Phase::kThreads> block;
  phase(block, static_cast<int32_t>(blockIdx.x), shared);
}

template <class Phase>
const void* kernel_of() {
  return reinterpret_cast<const void*>(&phase_kernel<Phase>);
}

}  // namespace

template <class Phase>
int64_t PhaseKernel<Phase>::most_shared_bytes() {
  return most_launch_bytes(kernel_of<Phase>());
}

template <class Phase>
void PhaseKernel<Phase>::launch(const Phase& phase, cudaStream_t stream) {
  if (phase.blocks() == 0) return;
  static const int64_t own_bytes = own_shared_bytes(kernel_of<Phase>());
  static const int64_t most = most_shared_bytes();
  const int64_t shared = phase.shared_bytes();
  // The limit belongs to the kernel. One for this launch alone might be too low for that of another
  // thread.
  if (own_bytes + shared > shared_memory().by_default) allow_launch_bytes(kernel_of<Phase>(), most);
  phase_kernel<Phase><<<static_cast<unsigned>(phase.blocks()), Phase::kThreads,
                        static_cast<size_t>(shared), stream>>>(phase);
  RTFX_CUDA(cudaGetLastError());
}

template struct PhaseKernel<Hidden>;
template struct PhaseKernel<LstmCell>;
template struct PhaseKernel<Expand>;
template struct PhaseKernel<Choose>;
template struct PhaseKernel<Normalize>;
template struct PhaseKernel<StartFrame>;
template struct PhaseKernel<ExpandFrame>;
template struct PhaseKernel<ChooseExpanded>;
template struct PhaseKernel<FinishFrame>;
template struct PhaseKernel<NextFrame>;
template struct PhaseKernel<CtcFrames>;

}  // namespace rtfx::fused_beam
