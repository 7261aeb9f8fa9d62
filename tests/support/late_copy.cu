#include "base/gpu/dependent_launch.cuh"
#include "tests/support/late_copy.h"

namespace rtfx::test {
namespace {

constexpr int kThreads = 1024;
constexpr int64_t kDelay = 400'000;  // clock cycles

__global__ void __launch_bounds__(kThreads)
    late_copy_kernel(const unsigned char* from, unsigned char* to, int64_t bytes) {
  await_previous();
  for (const int64_t start = clock64(); clock64() - start < kDelay;) {
  }
  for (int64_t i = threadIdx.x; i < bytes; i += kThreads) to[i] = from[i];
}

}  // namespace

void late_copy(const void* from, void* to, int64_t bytes, cudaStream_t stream) {
  launch_dependent(late_copy_kernel, 1, kThreads, 0, stream,
                   static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), bytes);
}

}  // namespace rtfx::test
