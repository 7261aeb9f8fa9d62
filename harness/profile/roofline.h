// `rtfx profile --roofline`: what a region has to move and to compute, and how near it comes to the
// most that the device can.
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

/// Limits that follow from the device's properties at its highest clocks
/// (docs/reference/profiling.md has the formulas). 0 stands for unknown.
struct DeviceLimits {
  double bytes = 0;   // of its memory, in a second
  double vector = 0;  // FLOP in a second, fp32 by its vector units
  double matrix = 0;  // the same of bf16 and fp16 by its matrix units, dense, sums in fp32

  bool known() const { return bytes > 0 && vector > 0; }
  /// Seconds that so many bytes and FLOP take at least; none where the limits are not known.
  std::optional<double> least_seconds(double moved, double flop, bool on_matrix_units) const;
  /// Null where they are not known.
  Nullable<record::Limits> field() const;
};

/// The limits of a GPU, from its attributes. Those of a CPU are unknown.
DeviceLimits device_limits(at::Device device);

/// From the attributes of a CUDA device: clocks in kHz, bus in bits, compute capability.
DeviceLimits limits_of(double memory_khz, double bus_bits, double processors, double clock_khz,
                       int major, int minor);

struct RooflineOptions {
  std::string region = "decode";  // a region of base/nvtx.h
  std::string only;               // only cases with this in their name
  int64_t laps = 3;               // whose time is measured
  int64_t launches = 300;         // kernels of a case that are counted, at most
  int64_t top = 10;               // kernels or operators listed of a case
};

/// Measures the roofline of each case. With a GPU and ncu, a process that ncu runs gives the
/// counters of its kernels. Otherwise the bytes and FLOP of LibTorch's operators are computed from
/// shapes, and marked so. Prints a table and writes <output>/roofline.jsonl (docs/journal.md); an
/// earlier file is kept as roofline.jsonl.N. Returns an ExitCode. Throws UserError.
int roofline(const Config& config, const RooflineOptions& options);

// The GPU's counters of kernels, read by Nsight Compute's program ncu.

/// Means over the launches of a kernel that were counted. Shares: of the most that the GPU can
/// sustain at the clocks at which it was counted, which ncu sets to the base ones.
struct CountedKernel {
  std::string part;  // the phase or segment (base/nvtx.h) in which it was launched; may be empty
  std::string name;  // as short_kernel_name()
  int64_t count = 0;
  double seconds = 0;
  double bytes = 0, l2_bytes = 0;  // from and to memory; between L2 and the multiprocessors
  double flop = 0;  // on all units, in fp32, tf32, bf16 and fp16; products in fp8 are not counted
  double memory_share = 0, l2_share = 0, vector_share = 0, matrix_share = 0;

  double total_seconds() const { return seconds * static_cast<double>(count); }
  /// The largest of the four shares, and its name: "memory", "L2", "vector units", "matrix units".
  double share() const;
  const char* bound() const;
};

/// The program ncu; empty where there is none.
std::filesystem::path find_ncu();

/// Arguments of ncu for counting at most `launches` kernels of the NVTX range `region` of a
/// program, which starts and stops the profiler itself. The counters go to `file`, as CSV.
std::vector<std::string> ncu_arguments(const std::string& region, int64_t launches, int major,
                                       const std::filesystem::path& file);

/// Kernels of each part in ncu's CSV (page "raw"), those that take longest in all first. Counters
/// that this GPU lacks count as 0. Throws UserError where the file is none.
std::vector<CountedKernel> read_ncu_csv(const std::filesystem::path& file);

}  // namespace rtfx
