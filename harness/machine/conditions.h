// The conditions of the machine while a round ran: clocks, throttling and energy through NVML, and
// waiting for a CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rtfx {

/// Figures are missing where NVML could not tell them.
struct GpuState {
  std::optional<double> sm_clock_mhz, memory_clock_mhz, temperature_c, power_w;
  uint64_t throttle_reasons = 0;  // bits, see throttle_names()
};

/// Names of the bits that are set and say that a clock is lower than it would be: "sw_power_cap",
/// "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake". That a GPU is idle or its clocks
/// are set by the user is none of them.
std::vector<std::string> throttle_names(uint64_t reasons);

/// NVML, a library that may be missing, for one GPU.
class Nvml {
 public:
  /// `pci_bus_id`: "0000:1b:00.0". Null where it cannot be done; `problem` then says why in a line.
  static std::unique_ptr<Nvml> open(const std::string& pci_bus_id, std::string& problem);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Any thread may call; this does not wait for the device.
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

/// A reading of the counter.
struct EnergySample {
  double seconds = 0;
  uint64_t millijoules = 0;
};

struct MeanPower {
  double watts = 0;
  int64_t updates = 0;  // of the counter, over which this is the mean
};

/// The counter goes on in steps, every 20 to 100 ms. Between two of them, energy and time are both
/// known. So the mean is taken from the first step that the samples show to the last. None where
/// they show fewer than kLeastUpdates: the time was too short to tell.
std::optional<MeanPower> mean_power(const std::vector<EnergySample>& samples);
constexpr int64_t kLeastUpdates = 10;

/// Millijoules, none where it cannot be read; called from another thread.
using EnergyCounter = std::function<std::optional<uint64_t>()>;

/// Reads the counter every 5 ms from its construction to end(), on a thread of its own.
class EnergyMeter {
 public:
  explicit EnergyMeter(EnergyCounter counter);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  std::optional<MeanPower> end();

 private:
  void sample();

  EnergyCounter counter_;
  std::vector<EnergySample> samples_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

struct GpuConditions {
  std::optional<double> sm_clock_mean_mhz, sm_clock_min_mhz;       // of the samples that have it
  double sm_clock_max_mhz = 0;                                     // of the device
  std::optional<double> memory_clock_mhz, temperature_c, power_w;  // the last sample's
  uint64_t throttle_reasons = 0;                                   // of all samples together
};

/// Summarizes at least one sample. `sm_clock_max_mhz`: the device's.
GpuConditions gpu_conditions(const std::vector<GpuState>& samples, double sm_clock_max_mhz);

struct Conditions {
  double wall_seconds = 0;
  std::optional<double> cpu_wait_seconds;  // of all threads: runnable, yet not running. None where
                                           // the kernel does not tell
  double stopped_seconds = 0;              // in which no thread ran: a signal had stopped the
                                           // process, or the machine slept. By StopDetector
  std::optional<double> other_cpus;        // CPUs that other programs and the hypervisor used
  std::optional<GpuConditions> gpu;
};

/// Seconds that all CPUs of the machine were busy or taken by the hypervisor, from the text of
/// /proc/stat, whose unit is 1 / `ticks` s. None where it does not count.
std::optional<double> busy_seconds(std::istream& stat, double ticks);

/// Reasons to distrust a round's times: "sm_clock" (mean below 75 % of the device's maximum),
/// names of throttle_names(), "cpu_wait" (over 10 % of the wall time), "stopped" (over 1 %).
std::vector<std::string> suspect_reasons(const Conditions& conditions);

/// PCI bus id of a CUDA device, as NVML takes it.
std::string pci_bus_id(at::Device device);

/// Finds the times in which a process did not run. A thread of it calls tick() at regular
/// intervals. A call that comes late by more than kLongestDelay was held up, since a thread that
/// only waits gets a CPU within milliseconds even on a busy machine.
class StopDetector {
 public:
  using Duration = std::chrono::duration<double>;
  static constexpr Duration kLongestDelay{0.25};

  /// Times are of one clock, which goes on while the machine sleeps.
  StopDetector(Duration interval, Duration begin) : interval_(interval), last_(begin) {}

  void tick(Duration now);
  double stopped_seconds() const { return stopped_.count(); }

 private:
  Duration interval_, last_, stopped_{0};
};

/// Samples from begin() to end(), by a thread of its own, every 50 ms.
class ConditionSampler {
 public:
  explicit ConditionSampler(at::Device device);
  ~ConditionSampler();
  ConditionSampler(const ConditionSampler&) = delete;
  ConditionSampler& operator=(const ConditionSampler&) = delete;

  void begin();
  Conditions end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rtfx
