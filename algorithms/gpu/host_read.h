// Deliberate waits of the host for the device: the only way a decoder may look at device data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace c10::cuda {
struct CUDAEvent;
}

namespace rtfx {

/// Reads device data back and counts the reads. Every call copies once and waits for the current
/// stream, but for wait(). In sync-debug mode (sync_debug.h) this is the one place where reading is
/// allowed.
class HostReads {
 public:
  /// True if any element of `flags` (bool) is set.
  bool any(const at::Tensor& flags);
  /// The one element of `value` (int64).
  int64_t integer(const at::Tensor& value);
  /// A copy of `values` on the host.
  at::Tensor values(const at::Tensor& values);

  /// All of `from` into `to`, a tensor of the same shape and type on the host.
  void copy(const at::Tensor& from, const at::Tensor& to);

  /// Waits for the work that was enqueued before the event, not for the whole stream.
  void wait(const c10::cuda::CUDAEvent& event);

  int64_t count() const { return count_; }
  void reset() { count_ = 0; }

 private:
  int64_t count_ = 0;
};

}  // namespace rtfx
