// Prefetches into the L2 cache, of constants that lie in memory until they are needed. A prefetch
// reads nothing into the kernel, so a result never depends on it, and kernels may prefetch before
// await_previous() (base/gpu/dependent_launch.cuh).
#pragma once

namespace rtfx {

/// Prefetches at least the aligned 32 bytes around `address`.
__device__ inline void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace rtfx
