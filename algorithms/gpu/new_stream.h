// Streams that no recording uses.
#pragma once

#include <c10/cuda/CUDAStream.h>

namespace rtfx {

/// Makes a stream of the GPU, which does not wait for the default stream. It is none of LibTorch's
/// pool. Graphs are recorded on the pool's streams in turn, and work that another thread enqueues
/// on such a stream would be recorded, too. The stream is never destroyed, since LibTorch keeps
/// memory by stream. So callers make one for each device, not for each object. Throws
/// std::runtime_error that names the failed call.
c10::cuda::CUDAStream new_stream(c10::DeviceIndex gpu, bool high_priority);

}  // namespace rtfx
