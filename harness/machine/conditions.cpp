#include "harness/machine/conditions.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/nvtx.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kInterval = std::chrono::milliseconds(50);
constexpr double kLeastClock = 0.75, kMostWaiting = 0.10;

/// Seconds that the threads of this process have waited for a CPU; none without schedstat.
std::optional<double> cpu_wait_seconds() {
  double seconds = 0;
  bool known = false;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    uint64_t running = 0, waiting = 0;  // ns
    if (!(file >> running >> waiting)) continue;
    seconds += static_cast<double>(waiting) * 1e-9;
    known = true;
  }
  return known ? std::optional(seconds) : std::nullopt;
}

GpuConditions summarize(const std::vector<GpuState>& samples, double device_maximum) {
  GpuConditions gpu;
  gpu.sm_clock_max_mhz = device_maximum;
  gpu.sm_clock_min_mhz = samples.front().sm_clock_mhz;
  for (const GpuState& s : samples) {
    gpu.sm_clock_mean_mhz += s.sm_clock_mhz / static_cast<double>(samples.size());
    gpu.sm_clock_min_mhz = std::min(gpu.sm_clock_min_mhz, s.sm_clock_mhz);
    gpu.throttle_reasons |= s.throttle_reasons;
  }
  gpu.memory_clock_mhz = samples.back().memory_clock_mhz;
  gpu.temperature_c = samples.back().temperature_c;
  gpu.power_w = samples.back().power_w;
  return gpu;
}

}  // namespace

std::vector<std::string> suspect_reasons(const Conditions& conditions) {
  std::vector<std::string> reasons;
  if (const auto& gpu = conditions.gpu) {
    if (gpu->sm_clock_mean_mhz < kLeastClock * gpu->sm_clock_max_mhz)
      reasons.emplace_back("sm_clock");
    for (std::string& name : throttle_names(gpu->throttle_reasons))
      reasons.push_back(std::move(name));
  }
  if (conditions.cpu_wait_seconds.value_or(0) > kMostWaiting * conditions.wall_seconds)
    reasons.emplace_back("cpu_wait");
  return reasons;
}

std::string pci_bus_id(at::Device device) {
  const cudaDeviceProp& p = *at::cuda::getDeviceProperties(device.index());
  return fmt::format("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
}

struct ConditionSampler::State {
  std::unique_ptr<Nvml> nvml;
  std::vector<GpuState> samples;  // written by the thread, read once it has been joined
  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  Clock::time_point begin;
  std::optional<double> waited;

  void sample() {
    name_thread("rtfx clocks");
    std::unique_lock lock(mutex);
    do {
      samples.push_back(nvml->state());
    } while (!wake.wait_for(lock, kInterval, [this] { return stop; }));
  }

  void end_thread() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_one();
    thread.join();
  }
};

ConditionSampler::ConditionSampler(at::Device device) : state_(std::make_unique<State>()) {
  std::string problem;  // without NVML there are no clocks; `rtfx doctor` says why
  if (device.is_cuda()) state_->nvml = Nvml::open(pci_bus_id(device), problem);
}

ConditionSampler::~ConditionSampler() { state_->end_thread(); }

void ConditionSampler::begin() {
  state_->end_thread();
  state_->samples.clear();
  state_->stop = false;
  if (state_->nvml) state_->thread = std::thread([this] { state_->sample(); });
  state_->waited = cpu_wait_seconds();
  state_->begin = Clock::now();
}

Conditions ConditionSampler::end() {
  Conditions conditions;
  conditions.wall_seconds = std::chrono::duration<double>(Clock::now() - state_->begin).count();
  const auto waited = cpu_wait_seconds();
  // The sum is over the threads that are alive: it shrinks when one that had waited ends.
  if (waited && state_->waited)
    conditions.cpu_wait_seconds = std::max(0.0, *waited - *state_->waited);
  state_->end_thread();
  if (!state_->samples.empty())
    conditions.gpu = summarize(state_->samples, state_->nvml->max_sm_clock_mhz());
  return conditions;
}

}  // namespace rtfx
