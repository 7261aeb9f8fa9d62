// A barrier of all blocks of a cooperative launch, in two halves.
#pragma once

#include <cuda_runtime.h>

#include "algorithms/gpu/named_barrier.cuh"

namespace rtfx {

/// After their wait(), all blocks see the writes of each block before its arrive(). Between its two
/// calls a block may do work that depends on no other block. The first kThreads threads of all
/// blocks call both in turn, once for each barrier. The kernel must be launched with
/// cudaLaunchCooperativeKernel(): otherwise blocks that run wait for ever for others that do not.
///
/// Own code, since cooperative groups' barrier is slower. On one H100, rtfx_bench_block took 0.80
/// to 0.95 of the time of its faster form, 132 blocks of 320 threads, on 2026-11-26.
template <int kThreads>
struct GridBarrier {
  unsigned* arrived;  // in global memory, 0 before the kernel starts; the count never wraps
  unsigned expected = 0;

  __device__ void arrive() {
    Block::sync();
    arrive_together();
  }
  /// In place of arrive(), where a barrier of the block's own lies just before.
  __device__ void arrive_together() {
    expected += gridDim.x;
    if (threadIdx.x == 0)
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
  }
  __device__ void wait() {
    if (threadIdx.x == 0) {
      unsigned now;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
      } while (now < expected);
    }
    Block::sync();
  }

 private:
  using Block = NamedBarrier<0, kThreads>;
};

}  // namespace rtfx
