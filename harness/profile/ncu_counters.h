// The GPU's counters of kernels, read by Nsight Compute's program ncu.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rtfx {

/// Means over the launches of a kernel that were counted. Shares: of the most that the GPU can
/// sustain at the clocks at which it was counted, which ncu sets to the base ones.
struct CountedKernel {
  std::string part;  // the phase or segment (base/nvtx.h) in which it was launched; may be empty
  std::string name;  // as short_kernel_name()
  int64_t count = 0;
  double seconds = 0;
  double bytes = 0, l2_bytes = 0;  // from and to memory; between L2 and the multiprocessors
  double flop = 0;                 // on all units, in all precisions that the decoders use
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
