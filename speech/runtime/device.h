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

/// "auto" (cuda where there is one, else cpu), "cpu", "cuda" or "cuda:N". Throws UserError, also
/// when the GPU is not there.
at::Device parse_device(const std::string& name, const std::string& where);

/// While it lives, this thread computes without gradients and on a device: what every command that
/// runs a model begins with.
class DeviceScope {
 public:
  /// `threads`: of the CPU, for good; 0: as OMP_NUM_THREADS says, else all CPUs that this process
  /// may use (fair_threads()). `device`, `where`: parse_device().
  DeviceScope(int64_t threads, const std::string& device, const std::string& where);
  at::Device device() const { return device_; }
  /// Whether this process has made one.
  static bool was_made();

 private:
  c10::InferenceMode inference_;
  at::Device device_;
  c10::OptionalDeviceGuard guard_;
};

/// Returns `asked` with bf16 in the place of fp8 where the GPU cannot compute in fp8, and adds a
/// notice. A CPU keeps fp8, which building the model then refuses.
Dtypes usable_dtypes(const Dtypes& asked, at::Device device, std::vector<std::string>& notices);

/// Does so for a GPU of this compute capability.
Dtypes usable_dtypes(const Dtypes& asked, int major, int minor, std::vector<std::string>& notices);

/// Waits until the calling thread's current GPU, which must be `device`, has done everything
/// enqueued. Returns at once for a CPU.
void synchronize(at::Device device);

/// Name of the GPU, or of the CPU.
std::string device_name(at::Device device);

/// Describes the exception that is being handled: "out of memory: ..." with a remedy for LibTorch's
/// allocation errors, else its what() without a stack trace. A plug-in may throw anything; an
/// object that is no std::exception is described by its type.
std::string describe_failure();

/// LibTorch's settings of a thread, which a new thread lacks.
/// Applies the settings to the thread that makes it, for as long as it lives.
struct ThreadSettings {
  explicit ThreadSettings(at::Device device) : guard(device) { at::init_num_threads(); }
  c10::InferenceMode inference;
  c10::OptionalDeviceGuard guard;
};

// The share of the machine's CPUs and memory that this process may use.

/// Limits of the control group and of those above it; none where there is no limit.
struct CgroupLimits {
  std::optional<double> cpus;           // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // of all its processes
};

/// Reads control groups of versions 1 and 2 below `root`, which tests replace.
CgroupLimits group_limits(const std::filesystem::path& root = "/");

/// Numbers of the CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// "0-3,8" of 0, 1, 2, 3, 8.
std::string ranges_text(const std::vector<int>& numbers);

/// The CPUs that processes of one machine share.
struct SharedCpus {
  int64_t of_this;                // this process may run on so many
  std::optional<int64_t> of_all;  // all processes together, where each may have its own
  std::optional<double> limit;    // the control group may use the time of so many

  /// Returns the threads for one of `processes`, at least 1. Without `of_all`, all of them run on
  /// the CPUs of this one.
  int64_t threads(int64_t processes) const;
};

/// Returns the threads for one of `processes` that share this machine evenly: SharedCpus of this
/// process's affinity and control group. `cpus_of_all`: where a launcher has divided the CPUs.
int64_t fair_threads(int64_t processes, std::optional<int64_t> cpus_of_all = std::nullopt);

}  // namespace rtfx
