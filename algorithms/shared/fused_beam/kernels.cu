#include <cuda_runtime.h>

#include "algorithms/gpu/check.h"
#include "algorithms/gpu/cuda_block.cuh"
#include "algorithms/shared/fused_beam/kernels.h"

namespace rtfx::fused_beam {
namespace {

constexpr int32_t kThreads = 128;  // of a block, but for phases that have their own
constexpr int64_t kSharedByDefault =
    40 << 10;  // beyond it and what a block has of its own: on request

// One block at least on a multiprocessor: registers for loads that are under way together count for
// more than how many blocks fit.
template <class Phase, int32_t kThreads>
__global__ void __launch_bounds__(kThreads, 1) phase_kernel(const __grid_constant__ Phase phase) {
  extern __shared__ uint64_t shared[];
  CudaBlock<kThreads> block;
  phase(block, static_cast<int32_t>(blockIdx.x), shared);
}

template <class Phase, int32_t kThreads = rtfx::fused_beam::kThreads>
void launch_phase(const Phase& phase, cudaStream_t stream) {
  if (phase.blocks() == 0) return;
  const int64_t shared = phase.shared_bytes();
  if (shared > kSharedByDefault)
    RTFX_CUDA(cudaFuncSetAttribute(phase_kernel<Phase, kThreads>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared)));
  phase_kernel<Phase, kThreads>
      <<<static_cast<unsigned>(phase.blocks()), kThreads, static_cast<size_t>(shared), stream>>>(
          phase);
  RTFX_CUDA(cudaGetLastError());
}

}  // namespace

void launch(const Hidden& phase, cudaStream_t stream) {
  launch_phase<Hidden, Hidden::kThreads>(phase, stream);
}
void launch(const Expand& phase, cudaStream_t stream) {
  launch_phase<Expand, Expand::kThreads>(phase, stream);
}
void launch(const Choose& phase, cudaStream_t stream) {
  launch_phase<Choose, Choose::kThreads>(phase, stream);
}
void launch(const LstmCell& phase, cudaStream_t stream) {
  launch_phase<LstmCell, LstmCell::kThreads>(phase, stream);
}
void launch(const Normalize& phase, cudaStream_t stream) {
  launch_phase<Normalize, Normalize::kThreads>(phase, stream);
}
void launch(const StartFrame& phase, cudaStream_t stream) { launch_phase(phase, stream); }
void launch(const ExpandFrame& phase, cudaStream_t stream) {
  launch_phase<ExpandFrame, ExpandFrame::kThreads>(phase, stream);
}
void launch(const ChooseExpanded& phase, cudaStream_t stream) {
  launch_phase<ChooseExpanded, ChooseExpanded::kThreads>(phase, stream);
}
void launch(const FinishFrame& phase, cudaStream_t stream) { launch_phase(phase, stream); }
void launch(const NextFrame& phase, cudaStream_t stream) { launch_phase(phase, stream); }
void launch(const CtcFrames& phase, cudaStream_t stream) {
  launch_phase<CtcFrames, CtcFrames::kThreads>(phase, stream);
}

}  // namespace rtfx::fused_beam
