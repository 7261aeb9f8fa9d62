// Sets a graph's condition from a value in device memory.
#pragma once

#include <cuda_runtime_api.h>

namespace rtfx {

/// Enqueues a kernel that sets `condition` to *flag (device memory). Does not wait. Throws
/// std::runtime_error if the launch fails.
void set_condition(cudaGraphConditionalHandle condition, const bool* flag, cudaStream_t stream);

}  // namespace rtfx
