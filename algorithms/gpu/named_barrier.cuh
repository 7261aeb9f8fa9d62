// A barrier of some of a block's warps, so that warps with different work need not wait for each
// other.
#pragma once

#include <cuda_runtime.h>

#include "base/gpu/warp.cuh"

namespace rtfx {

/// Barrier kNumber of a block, 0 to 15, completes when kThreads threads have called sync() or
/// arrive(). All threads of a warp must call them together. __syncthreads() is number 0 with all
/// threads.
template <int kNumber, int kThreads>
struct NamedBarrier {
  static_assert(kNumber >= 0 && kNumber < 16 && kThreads % kWarpSize == 0);

  /// Waits for the other threads. Their earlier writes are visible afterwards.
  __device__ static void sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
  }
  /// Arrives for the threads that wait in sync(), and does not wait itself.
  __device__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
  }
};

}  // namespace rtfx
