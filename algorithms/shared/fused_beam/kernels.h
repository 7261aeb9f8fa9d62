// Runs a phase of a fused step: a kernel on a GPU, one thread on a CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "algorithms/shared/fused_beam/choose.h"
#include "algorithms/shared/fused_beam/ctc_frames.h"
#include "algorithms/shared/fused_beam/expand.h"
#include "algorithms/shared/fused_beam/frame.h"
#include "algorithms/shared/fused_beam/predict.h"

namespace rtfx::fused_beam {

/// Enqueues one kernel. Does not wait; can be recorded into a graph. Throws std::runtime_error with
/// CUDA's error.
void launch(const Hidden& phase, cudaStream_t stream);
void launch(const Expand& phase, cudaStream_t stream);
void launch(const Choose& phase, cudaStream_t stream);
void launch(const LstmCell& phase, cudaStream_t stream);
void launch(const Normalize& phase, cudaStream_t stream);
void launch(const StartFrame& phase, cudaStream_t stream);
void launch(const ExpandFrame& phase, cudaStream_t stream);
void launch(const ChooseExpanded& phase, cudaStream_t stream);
void launch(const FinishFrame& phase, cudaStream_t stream);
void launch(const NextFrame& phase, cudaStream_t stream);
void launch(const CtcFrames& phase, cudaStream_t stream);

/// All blocks one after the other.
template <class Phase>
void run_on_host(const Phase& phase) {
  std::vector<std::byte> shared(static_cast<size_t>(phase.shared_bytes()));
  SerialBlock block;
  for (int32_t i = 0; i < phase.blocks(); ++i) phase(block, i, shared.data());
}

}  // namespace rtfx::fused_beam
