// What this process may use of the machine's CPUs and memory, and who else wants them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

/// Limits of the control group and of those above it; none where there is no limit.
struct GroupLimits {
  std::optional<double> cpus;           // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // of all its processes
};

/// Of versions 1 and 2. `root`: of the file system, for tests.
GroupLimits group_limits(const std::filesystem::path& root = "/");

/// Numbers of the CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// "0-3,8" of 0, 1, 2, 3, 8.
std::string ranges_text(const std::vector<int>& numbers);

/// Threads of one of `processes` on this machine, which share it evenly: no more than it may run
/// on, and than its part of the CPUs and of the group's limit; at least 1.
int64_t fair_threads(int64_t processes);

/// Of a provenance record: "affinity", "load_average", "group_limits", "wait_policy".
nlohmann::json cpu_share();

}  // namespace rtfx
