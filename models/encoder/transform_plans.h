// Fourier transforms on a GPU by cuFFT, through LibTorch.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <tuple>

namespace rtfx {

/// Makes cuFFT's plans before their first use on a stream of ours.
///
/// cuFFT makes a plan for each length and number of transforms. On a GPU that other processes keep
/// busy, the first transform of a size could end in an illegal memory access of cuFFT's kernel. It
/// did not where the device was waited for between plan and transform. So cuFFT seems to prepare a
/// plan's memory on the default stream, for which our streams do not wait.
///
/// The first transform of a size is therefore made twice, and the host waits for the first one.
///
/// Each place that transforms has an object of its own, since plans also depend on strides. Members
/// may be called on any thread.
class TransformPlans {
 public:
  /// Does `transform`, which is `count` transforms of `length` values on the GPU `device`, on the
  /// default stream, and waits for it. Further calls with these numbers return at once, and so do
  /// calls within a recording of a CUDA graph.
  void make(c10::Device device, int64_t length, int64_t count,
            const std::function<void()>& transform);

 private:
  std::mutex mutex_;
  std::set<std::tuple<c10::DeviceIndex, int64_t, int64_t>> made_;
};

}  // namespace rtfx
