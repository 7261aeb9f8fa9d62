// `rtfx profile --roofline`: the bytes that a region has to move and the FLOP that it has to
// compute, compared with the limits of the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/records.h"

namespace rtfx {

/// Limits that follow from the device's properties at its highest clocks.
/// docs/reference/profiling.md gives the formulas. 0 means unknown.
struct DeviceLimits {
  double bytes = 0;   // memory bandwidth in bytes per second
  double vector = 0;  // FLOP per second of the vector units in fp32
  /// FLOP per second of the matrix units in bf16 and fp16: dense, with sums in fp32.
  double matrix = 0;

  bool known() const { return bytes > 0 && vector > 0; }
  /// Returns the least time in seconds to move `moved` bytes and compute `flop`. None if the limits
  /// are not known.
  std::optional<double> least_seconds(double moved, double flop, bool on_matrix_units) const;
  /// Null if the limits are not known.
  Nullable<record::DeviceLimits> field() const;
};

/// Returns the limits of a GPU from its attributes. Those of a CPU are unknown.
DeviceLimits device_limits(at::Device device);

/// Returns the limits for the attributes of a CUDA device: clocks in kHz, bus width in bits,
/// compute capability.
DeviceLimits limits_of(double memory_khz, double bus_bits, double processors, double clock_khz,
                       int major, int minor);

struct RooflineOptions {
  std::string region = "decode";  // a region of base/nvtx.h
  std::string only;               // only cases with this in their name
  int64_t laps = 3;               // laps whose time is measured
  int64_t launches = 300;         // largest number of kernels that are counted for a case
  int64_t top = 10;               // number of kernels or operators to list for a case
};

/// Measures the roofline of each case. With a GPU and ncu, a child process under ncu reads the
/// counters of its kernels. Otherwise, the bytes and FLOP of LibTorch's operators are computed from
/// shapes, and are marked as computed. Prints a table and writes <output>/roofline.jsonl
/// (docs/journal.md); an earlier file is kept as roofline.jsonl.N. Returns an ExitCode. Throws
/// UserError.
int roofline(const Config& config, const RooflineOptions& options);

// The GPU's counters of kernels, which Nsight Compute's program ncu reads.

/// Means over the counted launches of a kernel. Shares are relative to the largest rate that the
/// GPU sustains at the clocks during counting, which ncu sets to the base clocks.
struct CountedKernel {
  std::string part;  // phase or segment (base/nvtx.h) that launched it; may be empty
  std::string name;  // as short_kernel_name()
  int64_t count = 0;
  double seconds = 0;
  /// Bytes from and to memory, and bytes between L2 and the multiprocessors.
  double bytes = 0, l2_bytes = 0;
  double flop = 0;  // on all units, in fp32, tf32, bf16 and fp16; not in fp8, which has no counter
  double memory_share = 0, l2_share = 0, vector_share = 0, matrix_share = 0;

  double total_seconds() const { return seconds * static_cast<double>(count); }
  /// Returns the largest of the four shares, and its name: "memory", "L2", "vector units", "matrix
  /// units".
  double share() const;
  const char* bound() const;
};

/// Returns the program ncu; empty if there is none.
std::filesystem::path find_ncu();

/// Returns the arguments with which ncu counts at most `launches` kernels in the NVTX range
/// `region` of a program. The program itself starts and stops the profiler. The counters go to
/// `file`, as CSV.
std::vector<std::string> ncu_arguments(const std::string& region, int64_t launches, int major,
                                       const std::filesystem::path& file);

/// Reads the kernels of each part from ncu's CSV (page "raw"), sorted by total time, longest first.
/// Counters that this GPU lacks count as 0. Throws UserError if the file is no such CSV.
std::vector<CountedKernel> read_ncu_csv(const std::filesystem::path& file);

}  // namespace rtfx
