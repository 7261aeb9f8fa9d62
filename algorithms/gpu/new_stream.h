// Streams that no recording uses, and objects that each GPU has once.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>

namespace rtfx {

/// Makes a stream of the GPU, which does not wait for the default stream. Profilers show it as
/// `name`. With `high_priority`, its kernels start before those of other streams. Any thread may
/// call this.
///
/// The stream does not come from LibTorch's pool. Graphs are recorded on the pool's streams in
/// turn, and work that another thread enqueues on such a stream would be recorded, too.
///
/// The stream is never destroyed, because LibTorch's allocator keeps freed memory for the stream
/// that used it. So callers make one for each device (one_for_gpu()), not for each object. Throws
/// std::runtime_error that names the failed call, and c10::Error for a GPU that does not exist.
c10::cuda::CUDAStream new_stream(c10::DeviceIndex gpu, const char* name, bool high_priority);

/// Returns the only T of the GPU. The first call makes it as T(gpu), and it lasts until the process
/// ends. Any thread may call this. Throws what the constructor throws.
template <class T>
const T& one_for_gpu(c10::DeviceIndex gpu) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, const T> all;  // a new entry moves no other
  const std::lock_guard lock(mutex);
  return all.try_emplace(gpu, gpu).first->second;
}

}  // namespace rtfx
