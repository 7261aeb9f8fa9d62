// Streams that no recording uses.
#pragma once

#include <c10/cuda/CUDAStream.h>

namespace rtfx {

/// Makes a stream of the GPU, which does not wait for the default stream. With `high_priority`, its
/// kernels start before those of other streams. Any thread may call this.
///
/// The stream does not come from LibTorch's pool. Graphs are recorded on the pool's streams in
/// turn, and work that another thread enqueues on such a stream would be recorded, too.
///
/// The stream is never destroyed, because LibTorch's allocator keeps freed memory for the stream
/// that used it. So callers make one for each device, not for each object. Throws
/// std::runtime_error that names the failed call, and c10::Error for a GPU that does not exist.
c10::cuda::CUDAStream new_stream(c10::DeviceIndex gpu, bool high_priority);

}  // namespace rtfx
