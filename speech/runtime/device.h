// Devices, LibTorch's settings of a thread, and the share of the CPUs and the memory of this
// process.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/dtypes.h"

namespace rtfx {

// Names of devices, waiting for a device, and LibTorch's settings of a thread.

/// Parses "auto" (cuda if there is a GPU, else cpu), "cpu", "cuda" or "cuda:N". Throws UserError,
/// also if the GPU does not exist.
at::Device parse_device(const std::string& name, const std::string& where);

/// While it exists, this thread computes without gradients and on a device. Every command that runs
/// a model begins with it.
class DeviceScope {
 public:
  /// `threads` sets the number of CPU threads for the rest of the process. With 0, OMP_NUM_THREADS
  /// sets it. Without that variable, it is fair_threads() for this process alone, but at most
  /// LibTorch's own number. `device` and `where` are arguments of parse_device().
  DeviceScope(int64_t threads, const std::string& device, const std::string& where);
  at::Device device() const { return device_; }
  /// Returns whether this process has made one.
  static bool was_made();

 private:
  c10::InferenceMode inference_;
  at::Device device_;
  c10::OptionalDeviceGuard guard_;
};

/// Returns `asked`, with bf16 instead of fp8 and a notice where the GPU cannot compute in fp8. A
/// CPU keeps fp8, which building the model then refuses.
Dtypes usable_dtypes(const Dtypes& asked, at::Device device, std::vector<std::string>& notices);

/// Does the same for a GPU of this compute capability.
Dtypes usable_dtypes(const Dtypes& asked, int major, int minor, std::vector<std::string>& notices);

/// Waits until the calling thread's current GPU, which must be `device`, has done everything
/// enqueued. Waits for the end of recordings of graphs, too, as wait_for_device() does. Returns at
/// once for a CPU.
void synchronize(at::Device device);

/// Returns the name of the GPU, or of the CPU.
std::string device_name(at::Device device);

/// Describes a failure as users read it.
struct FailureText {
  std::string text;
  bool out_of_memory = false;  // an allocation failed on the host or on the device
};

/// Describes the exception that is being handled. Where memory was lacking, the text is "out of
/// memory: ..." with a remedy. For others, it is what() without a stack trace. A plug-in may throw
/// any object. One that is no std::exception is described by its type.
FailureText failure_text();

/// Returns failure_text().text.
std::string describe_failure();

/// LibTorch's settings of a thread, which a new thread lacks. They hold for the thread that makes
/// the object, as long as the object exists.
struct ThreadSettings {
  explicit ThreadSettings(at::Device device) : guard(device) { at::init_num_threads(); }
  c10::InferenceMode inference;
  c10::OptionalDeviceGuard guard;
};

// The share of the machine's CPUs and memory that this process may use.

/// The limits of the control group and of those above it. A member is empty where there is no
/// limit.
struct CgroupLimits {
  std::optional<double> cpus;           // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // of all processes of the group
};

/// Reads control groups of versions 1 and 2 below `root`, which tests replace.
CgroupLimits group_limits(const std::filesystem::path& root = "/");

/// Returns the numbers of the CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// Returns "0-3,8" for 0, 1, 2, 3, 8.
std::string ranges_text(const std::vector<int>& numbers);

/// The CPUs that processes of one machine share.
struct SharedCpus {
  int64_t of_this;                // number of CPUs that this process may run on
  std::optional<int64_t> of_all;  // number for all processes, where each may have its own CPUs
  std::optional<double> limit;    // CPU seconds per second that the control group allows

  /// Returns the threads for one of `processes`, at least 1. Without `of_all`, all processes run on
  /// the CPUs of this one.
  int64_t threads(int64_t processes) const;
};

/// Returns the threads for one of `processes` that share this machine evenly. Computes
/// SharedCpus::threads() from this process's affinity and control group. `cpus_of_all` is the
/// number of CPUs of all processes, where a launcher has divided them.
int64_t fair_threads(int64_t processes, std::optional<int64_t> cpus_of_all = std::nullopt);

}  // namespace rtfx
