// Fourier transforms on a GPU by cuFFT, through LibTorch.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <tuple>

namespace rtfx {

/// Makes cuFFT's plans before their first use on a stream of rtfx.
///
/// cuFFT makes a plan for each length and number of transforms. On a GPU that other processes keep
/// busy, the first transform of a size could end in an illegal memory access of cuFFT's kernel. It
/// did not when the host waited for the device between plan and transform. So cuFFT seems to
/// prepare a plan's memory on the default stream, for which the streams of rtfx do not wait.
///
/// The first transform of a size is therefore made twice, and the host waits for the first one.
///
/// Each place that transforms has an object of its own, since plans also depend on strides. Members
/// may be called from any thread.
class TransformPlans {
 public:
  /// Runs `transform` on the default stream and waits for it. `transform` makes `count` transforms
  /// of `length` values on the GPU `device`. Further calls with these numbers return at once, and
  /// so do calls during the recording of a CUDA graph. After an exception of `transform`, the next
  /// call with these numbers runs it again.
  void make(c10::Device device, int64_t length, int64_t count,
            const std::function<void()>& transform);

 private:
  std::mutex mutex_;
  std::set<std::tuple<c10::DeviceIndex, int64_t, int64_t>> made_;
};

}  // namespace rtfx
