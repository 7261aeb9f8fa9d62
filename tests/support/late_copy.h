// A copy on the GPU that lets a dependent kernel start before the bytes are copied.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rtfx::test {

/// Enqueues a copy of `bytes` between places on the GPU, which begins about 0.2 ms after earlier
/// work. A dependent kernel behind it (base/gpu/dependent_launch.cuh) may start at once. Such a
/// kernel reads the old bytes if it fails to wait for the copy.
void late_copy(const void* from, void* to, int64_t bytes, cudaStream_t stream);

}  // namespace rtfx::test
