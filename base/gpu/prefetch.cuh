// Prefetches into the L2 cache, of constants that lie in memory until they are needed. A prefetch
// reads nothing into the kernel, so a result never depends on it, and kernels may prefetch before
// await_previous() (base/gpu/dependent_launch.cuh).
#pragma once

#include <cstdint>

namespace rtfx {

/// Prefetches at least the aligned 32 bytes around `address`.
__device__ inline void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/// Prefetches `bytes` from `address` on, both multiples of 16. Does nothing below compute
/// capability 9.0.
__device__ inline void prefetch([[maybe_unused]] const void* address,
                                [[maybe_unused]] uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes));
#endif
}

}  // namespace rtfx
