#include "harness/machine/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <utility>

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
  if (library_) library_->shutdown();  // the library stays loaded: unloading it gains nothing
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

}  // namespace rtfx
