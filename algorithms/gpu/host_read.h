// Reads of device memory by the host, which are counted, and the debug mode that finds those that
// are not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace c10::cuda {
struct CUDAEvent;
}

namespace rtfx {

// Deliberate waits of the host for the device: the only way a decoder may look at device data.

/// Reads device data back and counts the reads. Every call copies once and waits for the current
/// stream, but for wait(). In sync-debug mode (below) this is the one place where reading is
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

// Finds waits of the host for the device that a decoder did not declare.

/// Runs `work` and throws UserError naming the operators, if any of them read device data on the
/// host (a scalar read, a data-dependent shape, a blocking copy) outside of AllowSync. Works on the
/// CPU too, where the same operators are watched although nothing waits. On a GPU, LibTorch's own
/// synchronisation check is set to "error" as well.
void forbid_undeclared_syncs(const std::function<void()>& work);

/// While one exists on this thread, waiting is allowed. Nests.
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
