// A phase of a fused step as a kernel. A phase is a plain struct of sizes and pointers:
//   kThreads                   of each of its blocks
//   blocks()                   how many there are
//   shared_bytes()             memory that the threads of a block share
//   operator()(block, i, shared)   what block i does (algorithms/gpu/thread_block.h)
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rtfx::fused_beam {

/// Made for the phases that kernels.cu lists.
template <class Phase>
struct PhaseKernel {
  /// The most that shared_bytes() may be on the current device.
  static int64_t most_shared_bytes();

  /// Enqueues the kernel. Does not wait; can be recorded into a graph. Throws std::runtime_error
  /// with CUDA's error.
  static void launch(const Phase& phase, cudaStream_t stream);
};

}  // namespace rtfx::fused_beam
