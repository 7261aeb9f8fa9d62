#include "speech/runtime/cpu_share.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace rtfx {
namespace {

using Path = std::filesystem::path;

/// The numbers of a file; none for "max" or where there are none.
std::vector<std::optional<double>> numbers_of(const Path& file) {
  std::vector<std::optional<double>> numbers;
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    numbers.push_back(*end == '\0' ? std::optional(number) : std::nullopt);
  }
  return numbers;
}

template <class T>
void lower(std::optional<T>& limit, T value) {
  limit = std::min(limit.value_or(value), value);
}

void lower_cpus(GroupLimits& limits, std::optional<double> quota, std::optional<double> period) {
  if (quota && period && *quota > 0 && *period > 0) lower(limits.cpus, *quota / *period);
}

void lower_memory(GroupLimits& limits, const Path& file) {
  // Version 1 writes the largest number of pages for none.
  constexpr double kNone = 1e18;
  const auto numbers = numbers_of(file);
  if (!numbers.empty() && numbers[0] && *numbers[0] < kNone)
    lower(limits.memory_bytes, static_cast<int64_t>(*numbers[0]));
}

/// Those of one group.
void lower_by(GroupLimits& limits, const Path& group) {
  if (const auto max = numbers_of(group / "cpu.max"); max.size() == 2)
    lower_cpus(limits, max[0], max[1]);
  const auto quota = numbers_of(group / "cpu.cfs_quota_us");
  const auto period = numbers_of(group / "cpu.cfs_period_us");
  if (!quota.empty() && !period.empty()) lower_cpus(limits, quota[0], period[0]);
  lower_memory(limits, group / "memory.max");
  lower_memory(limits, group / "memory.limit_in_bytes");
}

}  // namespace

GroupLimits group_limits(const Path& root) {
  GroupLimits limits;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    std::istringstream fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (path.empty()) continue;
    const Path top = root / "sys/fs/cgroup" / controllers;
    // A container may show a path of the host, of which only the end of the way up is there.
    for (Path group = Path(path).relative_path();; group = group.parent_path()) {
      lower_by(limits, top / group);
      if (group.empty()) break;
    }
  }
  return limits;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    ranges.push_back(end - begin == 1 ? fmt::format("{}", numbers[begin])
                                      : fmt::format("{}-{}", numbers[begin], numbers[end - 1]));
  }
  return fmt::format("{}", fmt::join(ranges, ","));
}

int64_t fair_threads(int64_t processes) {
  double cpus = static_cast<double>(std::max<int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN)));
  if (const auto limit = group_limits().cpus) cpus = std::min(cpus, std::ceil(*limit));
  auto threads = static_cast<int64_t>(cpus) / processes;
  if (const auto allowed = allowed_cpus(); !allowed.empty())
    threads = std::min(threads, static_cast<int64_t>(allowed.size()));
  return std::max<int64_t>(1, threads);
}

}  // namespace rtfx
