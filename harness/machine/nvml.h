// Clocks, temperature, throttle reasons and energy of a GPU through NVML, a library that may be
// missing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rtfx {

struct GpuState {
  double sm_clock_mhz = 0, memory_clock_mhz = 0, temperature_c = 0, power_w = 0;
  uint64_t throttle_reasons = 0;  // bits, see throttle_names()
};

/// Names of the bits that are set and say that a clock is lower than it would be: "sw_power_cap",
/// "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake". That a GPU is idle or its clocks
/// are set by the user is none of them.
std::vector<std::string> throttle_names(uint64_t reasons);

class Nvml {
 public:
  /// `pci_bus_id`: "0000:1b:00.0". Null where it cannot be done; `problem` then says why in a line.
  static std::unique_ptr<Nvml> open(const std::string& pci_bus_id, std::string& problem);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Values that the GPU cannot tell stay 0. Any thread may call; this does not wait for the
  /// device.
  GpuState state() const;
  double max_sm_clock_mhz() const;
  /// Millijoules since the driver was loaded; none where the GPU does not count them. The counter
  /// goes on every 20 to 100 ms. May be called from any thread.
  std::optional<uint64_t> energy() const;

 private:
  Nvml() = default;

  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace rtfx
