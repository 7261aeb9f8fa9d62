#include "harness/machine/conditions.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "base/nvtx.h"

namespace rtfx {

namespace {

// The few declarations of NVML's stable C interface that are used here; 0 is success.
using Device = void*;
constexpr unsigned kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;

constexpr std::array<std::pair<uint64_t, const char*>, 5> kThrottleBits = {
    {{0x04, "sw_power_cap"},
     {0x08, "hw_slowdown"},
     {0x20, "sw_thermal"},
     {0x40, "hw_thermal"},
     {0x80, "hw_power_brake"}}};

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  Device device = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_bus)(const char*, Device*) = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*max_clock)(Device, unsigned, unsigned*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
  int (*energy)(Device, unsigned long long*) = nullptr;  // null in old drivers

  template <class Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }

  bool find_all() {
    find(energy, "nvmlDeviceGetTotalEnergyConsumption");
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
           find(device_by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
           find(clock, "nvmlDeviceGetClockInfo") && find(max_clock, "nvmlDeviceGetMaxClockInfo") &&
           find(temperature, "nvmlDeviceGetTemperature") &&
           find(power, "nvmlDeviceGetPowerUsage") &&
           find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
};

std::vector<std::string> throttle_names(uint64_t reasons) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kThrottleBits) {
    if ((reasons & bit) != 0) names.emplace_back(name);
  }
  return names;
}

std::unique_ptr<Nvml> Nvml::open(const std::string& pci_bus_id, std::string& problem) {
  auto library = std::make_unique<Library>();
  library->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr || !library->find_all()) {
    problem = "libnvidia-ml.so.1, which comes with the driver, is missing or too old";
    return nullptr;
  }
  if (const int code = library->init(); code != 0) {
    problem = fmt::format("NVML does not start (error {})", code);
    return nullptr;
  }
  if (const int code = library->device_by_bus(pci_bus_id.c_str(), &library->device); code != 0) {
    problem = fmt::format("NVML does not know the GPU at {} (error {})", pci_bus_id, code);
    library->shutdown();
    return nullptr;
  }
  std::unique_ptr<Nvml> nvml(new Nvml());
  nvml->library_ = std::move(library);
  return nvml;
}

Nvml::~Nvml() {
  if (library_) library_->shutdown();  // the library stays loaded, since unloading it gains nothing
}

GpuState Nvml::state() const {
  const Library& l = *library_;
  unsigned sm = 0, memory = 0, temperature = 0, milliwatts = 0;
  unsigned long long reasons = 0;
  GpuState state;
  if (l.clock(l.device, kSmClock, &sm) == 0) state.sm_clock_mhz = sm;
  if (l.clock(l.device, kMemoryClock, &memory) == 0) state.memory_clock_mhz = memory;
  if (l.temperature(l.device, kGpuTemperature, &temperature) == 0)
    state.temperature_c = temperature;
  if (l.power(l.device, &milliwatts) == 0) state.power_w = milliwatts / 1e3;
  if (l.throttle(l.device, &reasons) == 0) state.throttle_reasons = reasons;
  return state;
}

std::optional<uint64_t> Nvml::energy() const {
  unsigned long long millijoules = 0;
  const Library& l = *library_;
  if (l.energy == nullptr || l.energy(l.device, &millijoules) != 0) return std::nullopt;
  return millijoules;
}

double Nvml::max_sm_clock_mhz() const {
  unsigned mhz = 0;
  return library_->max_clock(library_->device, kSmClock, &mhz) == 0 ? mhz : 0;
}

namespace {

constexpr auto kReadingInterval = std::chrono::milliseconds(5);

}  // namespace

std::optional<MeanPower> mean_power(const std::vector<EnergySample>& samples) {
  const EnergySample *first = nullptr, *last = nullptr;
  int64_t updates = -1;  // number of steps from the first one on
  for (size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].millijoules == samples[i - 1].millijoules) continue;
    if (first == nullptr) first = &samples[i];
    last = &samples[i];
    ++updates;
  }
  if (updates < kLeastUpdates) return std::nullopt;
  const auto millijoules = static_cast<double>(last->millijoules - first->millijoules);
  return MeanPower{1e-3 * millijoules / (last->seconds - first->seconds), updates};
}

EnergyMeter::EnergyMeter(EnergyCounter counter)
    : counter_(std::move(counter)), thread_([this] { sample(); }) {}

EnergyMeter::~EnergyMeter() { end(); }

void EnergyMeter::sample() {
  name_thread("rtfx energy");
  std::unique_lock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  do {
    const auto millijoules = counter_();
    if (!millijoules) return;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin;
    samples_.push_back({since.count(), *millijoules});
  } while (!wake_.wait_for(lock, kReadingInterval, [this] { return stop_; }));
}

std::optional<MeanPower> EnergyMeter::end() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  return mean_power(samples_);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kInterval = std::chrono::milliseconds(50);
constexpr double kLeastClock = 0.75, kMostWaiting = 0.10, kMostStopped = 0.01;

/// Returns the time of the clock that goes on while the machine sleeps.
StopDetector::Duration boot_time() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Returns the seconds that the threads of this process have waited for a CPU; none without
/// schedstat.
std::optional<double> cpu_wait_seconds() {
  double seconds = 0;
  bool known = false;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    uint64_t running = 0, waiting = 0;  // nanoseconds
    if (!(file >> running >> waiting)) continue;
    seconds += static_cast<double>(waiting) * 1e-9;
    known = true;
  }
  return known ? std::optional(seconds) : std::nullopt;
}

}  // namespace

GpuConditions gpu_conditions(const std::vector<GpuState>& samples, double sm_clock_max_mhz) {
  GpuConditions gpu;
  gpu.sm_clock_max_mhz = sm_clock_max_mhz;
  gpu.memory_clock_mhz = samples.back().memory_clock_mhz;
  gpu.temperature_c = samples.back().temperature_c;
  gpu.power_w = samples.back().power_w;
  std::vector<double> clocks;
  for (const GpuState& s : samples) {
    if (s.sm_clock_mhz) clocks.push_back(*s.sm_clock_mhz);
    gpu.throttle_reasons |= s.throttle_reasons;
  }
  if (clocks.empty()) return gpu;
  gpu.sm_clock_mean_mhz =
      std::accumulate(clocks.begin(), clocks.end(), 0.0) / static_cast<double>(clocks.size());
  gpu.sm_clock_min_mhz = std::ranges::min(clocks);
  return gpu;
}

std::optional<double> busy_seconds(std::istream& stat, double ticks) {
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;
  if (!(stat >> name >> user >> nice >> system >> idle) || name != "cpu") return std::nullopt;
  stat >> io_wait >> irq >> soft_irq >> steal;  // missing in old kernels
  const double busy = user + nice + system + irq + soft_irq + steal;
  if (busy + idle == 0) return std::nullopt;  // a sandbox that does not count
  return busy / ticks;
}

std::vector<std::string> suspect_reasons(const Conditions& conditions) {
  std::vector<std::string> reasons;
  if (const auto& gpu = conditions.gpu) {
    if (gpu->sm_clock_mean_mhz && *gpu->sm_clock_mean_mhz < kLeastClock * gpu->sm_clock_max_mhz)
      reasons.emplace_back("sm_clock");
    for (std::string& name : throttle_names(gpu->throttle_reasons))
      reasons.push_back(std::move(name));
  }
  if (conditions.cpu_wait_seconds.value_or(0) > kMostWaiting * conditions.wall_seconds)
    reasons.emplace_back("cpu_wait");
  if (conditions.stopped_seconds > kMostStopped * conditions.wall_seconds)
    reasons.emplace_back("stopped");
  return reasons;
}

void StopDetector::tick(Duration now) {
  const Duration late = now - last_ - interval_;
  if (late > kLongestDelay) stopped_ += late;
  last_ = now;
}

std::string pci_bus_id(at::Device device) {
  const cudaDeviceProp& p = *at::cuda::getDeviceProperties(device.index());
  return fmt::format("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
}

struct ConditionSampler::State {
  /// CPU time in seconds of all programs of the machine, and of this process.
  struct CpuTimes {
    std::optional<double> machine;
    double own = 0;

    static CpuTimes now() {
      std::ifstream stat("/proc/stat");
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
      };
      return {busy_seconds(stat, static_cast<double>(::sysconf(_SC_CLK_TCK))),
              seconds(usage.ru_utime) + seconds(usage.ru_stime)};
    }
  };

  std::unique_ptr<Nvml> nvml;
  std::vector<GpuState> samples;  // written by the thread, read after it has been joined
  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  Clock::time_point begin;
  std::optional<double> waited;
  std::optional<StopDetector> stops;  // written likewise
  CpuTimes cpu;

  void sample() {
    name_thread("rtfx clocks");
    std::unique_lock lock(mutex);
    do {
      if (nvml) samples.push_back(nvml->state());
      stops->tick(boot_time());
    } while (!wake.wait_for(lock, kInterval, [this] { return stop; }));
    stops->tick(boot_time());
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
  state_->stops.emplace(kInterval, boot_time());
  state_->thread = std::thread([this] { state_->sample(); });
  state_->waited = cpu_wait_seconds();
  state_->cpu = State::CpuTimes::now();
  state_->begin = Clock::now();
}

Conditions ConditionSampler::end() {
  Conditions conditions;
  conditions.wall_seconds = std::chrono::duration<double>(Clock::now() - state_->begin).count();
  const auto waited = cpu_wait_seconds();
  // The sum is over the living threads. So it becomes smaller when a thread that had waited ends.
  if (waited && state_->waited)
    conditions.cpu_wait_seconds = std::max(0.0, *waited - *state_->waited);
  const auto cpu = State::CpuTimes::now();
  // The kernel counts in steps of 10 ms. In a short round, such a step would look like another
  // program.
  constexpr double kLeastSeconds = 0.2;
  if (cpu.machine && state_->cpu.machine && conditions.wall_seconds >= kLeastSeconds) {
    const double others = *cpu.machine - *state_->cpu.machine - (cpu.own - state_->cpu.own);
    conditions.other_cpus = std::max(0.0, others) / conditions.wall_seconds;
  }
  state_->end_thread();
  conditions.stopped_seconds = state_->stops->stopped_seconds();
  if (!state_->samples.empty())
    conditions.gpu = gpu_conditions(state_->samples, state_->nvml->max_sm_clock_mhz());
  return conditions;
}

}  // namespace rtfx
