#include "speech/runtime/device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Type.h>
#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "algorithms/gpu/graph.h"
#include "base/error.h"
#include "base/numbers.h"
#include "models/encoder/fp8_support.h"

namespace rtfx {

namespace {

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace

at::Device parse_device(const std::string& name, const std::string& where) {
  const int count = c10::cuda::device_count();
  if (name == "cpu" || (name == "auto" && count == 0)) return at::kCPU;
  if (name == "auto") return {at::kCUDA, 0};
  int index = 0;
  if (name.starts_with("cuda:")) {
    index = parse_number<int>(std::string_view(name).substr(5)).value_or(-1);
  } else if (name != "cuda") {
    index = -1;
  }
  if (name.starts_with("gpu")) {  // The nearest name by letters would be 'cpu'.
    throw UserError(where, fmt::format("unknown device '{}'", name),
                    "did you mean 'cuda'? allowed: auto, cpu, cuda, cuda:N");
  }
  if (index < 0)
    throw unknown_name(where, "device", name,
                       std::vector<std::string>{"auto", "cpu", "cuda", "cuda:N"});
  if (index >= count) {
    throw UserError(where, fmt::format("no device '{}': this machine has {} GPU(s)", name, count),
                    "use cpu, or check the driver with nvidia-smi");
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

Dtypes usable_dtypes(const Dtypes& asked, int major, int minor, std::vector<std::string>& notices) {
  if (asked.encoder != at::kFloat8_e4m3fn || multiplies_fp8(major)) return asked;
  notices.push_back(fmt::format(
      "the encoder computes in bf16 instead of fp8, since this GPU of compute capability {}.{} "
      "multiplies fp8 without a scale for each row",
      major, minor));
  return {at::kBFloat16, asked.decoder};
}

Dtypes usable_dtypes(const Dtypes& asked, at::Device device, std::vector<std::string>& notices) {
  if (!device.is_cuda()) return asked;
  const cudaDeviceProp* gpu = at::cuda::getDeviceProperties(device.index());
  return usable_dtypes(asked, gpu->major, gpu->minor, notices);
}

static std::atomic<bool> scope_was_made = false;

bool DeviceScope::was_made() { return scope_was_made; }

DeviceScope::DeviceScope(int64_t threads, const std::string& device, const std::string& where)
    : device_(parse_device(device, where)), guard_(device_) {
  scope_was_made = true;
  const bool given = std::getenv("OMP_NUM_THREADS") != nullptr;
  if (threads == 0 && !given)
    threads = std::min<int64_t>(at::get_num_threads(), fair_threads(/*processes=*/1));
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

void synchronize(at::Device device) {
  if (device.is_cuda()) wait_for_device();
}

std::string device_name(at::Device device) {
  return device.is_cuda() ? std::string(at::cuda::getDeviceProperties(device.index())->name)
                          : cpu_name();
}

FailureText failure_text() {
  std::string text;
  bool memory = false;
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    text = e.what();
    memory = true;
  } catch (const c10::OutOfMemoryError& e) {
    text = e.what_without_backtrace();
    memory = true;
  } catch (const c10::Error& e) {
    text = e.what_without_backtrace();
  } catch (const std::exception& e) {
    text = e.what();
  } catch (...) {
    return {fmt::format("an exception of type {}, which is no std::exception",
                        c10::demangle(abi::__cxa_current_exception_type()->name()))};
  }
  // LibTorch's allocator of the CPU and calls of CUDA have no exception type for lack of memory.
  memory = memory || text.find("out of memory") != std::string::npos ||
           text.find("can't allocate memory") != std::string::npos;
  if (memory) text = "out of memory: " + text + "; use smaller batches";
  return {text, memory};
}

std::string describe_failure() { return failure_text().text; }

namespace {

using Path = std::filesystem::path;

/// Returns the numbers in a file. An entry is empty for "max". The list is empty where there are no
/// numbers.
std::vector<std::optional<double>> numbers_of(const Path& file) {
  std::vector<std::optional<double>> numbers;
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    numbers.push_back(parse_number<double>(word));
  }
  return numbers;
}

template <class T>
void lower(std::optional<T>& limit, T value) {
  limit = std::min(limit.value_or(value), value);
}

void lower_cpus(CgroupLimits& limits, std::optional<double> quota, std::optional<double> period) {
  if (quota && period && *quota > 0 && *period > 0) lower(limits.cpus, *quota / *period);
}

void lower_memory(CgroupLimits& limits, const Path& file) {
  // Version 1 writes the largest number of pages where there is no limit.
  constexpr double kNone = 1e18;
  const auto numbers = numbers_of(file);
  if (!numbers.empty() && numbers[0] && *numbers[0] < kNone)
    lower(limits.memory_bytes, static_cast<int64_t>(*numbers[0]));
}

/// Lowers the limits to those of one control group.
void lower_by(CgroupLimits& limits, const Path& group) {
  if (const auto max = numbers_of(group / "cpu.max"); max.size() == 2)
    lower_cpus(limits, max[0], max[1]);
  const auto quota = numbers_of(group / "cpu.cfs_quota_us");
  const auto period = numbers_of(group / "cpu.cfs_period_us");
  if (!quota.empty() && !period.empty()) lower_cpus(limits, quota[0], period[0]);
  lower_memory(limits, group / "memory.max");
  lower_memory(limits, group / "memory.limit_in_bytes");
}

}  // namespace

CgroupLimits group_limits(const Path& root) {
  CgroupLimits limits;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    std::istringstream fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (path.empty()) continue;
    const Path top = root / "sys/fs/cgroup" / controllers;
    // A container may show a path of the host. Only its last folders exist in the container.
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

int64_t SharedCpus::threads(int64_t processes) const {
  auto cpus = static_cast<double>(of_all.value_or(of_this));
  if (limit) cpus = std::min(cpus, std::ceil(*limit));
  return std::max<int64_t>(1, std::min(static_cast<int64_t>(cpus) / processes, of_this));
}

int64_t fair_threads(int64_t processes, std::optional<int64_t> cpus_of_all) {
  int64_t own = std::ssize(allowed_cpus());
  if (own == 0) own = ::sysconf(_SC_NPROCESSORS_ONLN);  // more CPUs than a cpu_set_t holds
  return SharedCpus{own, cpus_of_all, group_limits().cpus}.threads(processes);
}

}  // namespace rtfx
