// Counted reads of device memory by the host, and a debug mode that finds uncounted ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace c10::cuda {
struct CUDAEvent;
}

namespace rtfx {

// A decoder may read device data only through HostReads. So each wait for the device is deliberate
// and counted.

/// Reads device data back and counts the reads. Every call copies once and waits for the current
/// stream, except wait(), which copies nothing. In sync-debug mode (below), each call allows its
/// own wait.
class HostReads {
 public:
  /// Returns whether any element of `flags` (bool) is set.
  bool any(const at::Tensor& flags);
  /// Returns the single element of `value` (int64).
  int64_t integer(const at::Tensor& value);
  /// Returns a copy of `values` on the host, or `values` itself if it is there already.
  at::Tensor values(const at::Tensor& values);

  /// Copies `from` to `to`, a tensor of the same shape and dtype on the host.
  void copy(const at::Tensor& from, const at::Tensor& to);

  /// Waits for the work that was enqueued before the event, not for the whole stream.
  void wait(const c10::cuda::CUDAEvent& event);

  int64_t count() const { return count_; }
  void reset() { count_ = 0; }

 private:
  int64_t count_ = 0;
};

// Finds waits of the host for the device that a decoder did not declare.

/// Runs `work`, and throws UserError if an operator read device data on the host outside of
/// AllowSync. The error names such operators: scalar reads, data-dependent shapes, and copies to
/// the host. On a CPU the same operators are watched, although nothing waits. On a GPU, LibTorch's
/// own synchronisation check is set to "error" as well. Its error names no operator.
void forbid_undeclared_syncs(const std::function<void()>& work);

/// Allows waiting on this thread while it exists. Objects may be nested.
class AllowSync {
 public:
  AllowSync();
  ~AllowSync();
  AllowSync(const AllowSync&) = delete;
  AllowSync& operator=(const AllowSync&) = delete;

 private:
  int previous_mode_;
};

}  // namespace rtfx
