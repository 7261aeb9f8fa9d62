// The share of the machine's CPUs and memory that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

/// Limits of the control group and of those above it; none where there is no limit.
struct GroupLimits {
  std::optional<double> cpus;           // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // of all its processes
};

/// Reads control groups of versions 1 and 2 below `root`, which tests replace.
GroupLimits group_limits(const std::filesystem::path& root = "/");

/// Numbers of the CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// "0-3,8" of 0, 1, 2, 3, 8.
std::string ranges_text(const std::vector<int>& numbers);

/// Threads of one of `processes` on this machine, which share it evenly: no more than it may run
/// on, and than its part of the CPUs and of the group's limit; at least 1.
int64_t fair_threads(int64_t processes);

}  // namespace rtfx
