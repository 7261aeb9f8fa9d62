// The conditions of the machine during a round: clocks, throttling and energy through NVML, and the
// time that threads waited for a CPU.
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

/// The state of a GPU. Figures that NVML could not read are missing.
struct GpuState {
  std::optional<double> sm_clock_mhz, memory_clock_mhz, temperature_c, power_w;
  uint64_t throttle_reasons = 0;  // bits, as throttle_names() takes them
};

/// Returns the names of the set bits that reduce a clock: "sw_power_cap", "hw_slowdown",
/// "sw_thermal", "hw_thermal", "hw_power_brake". An idle GPU, and clocks that the user set, have no
/// name.
std::vector<std::string> throttle_names(uint64_t reasons);

/// NVML for one GPU. The library may be missing.
class Nvml {
 public:
  /// `pci_bus_id` is like "0000:1b:00.0". Returns null if NVML cannot be opened; `problem` then
  /// says why in one line.
  static std::unique_ptr<Nvml> open(const std::string& pci_bus_id, std::string& problem);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// May be called from any thread. Does not wait for the device.
  GpuState state() const;
  double max_sm_clock_mhz() const;
  /// Returns millijoules since the driver was loaded; none if the GPU does not count them. The
  /// counter advances every 20 to 100 ms. May be called from any thread.
  std::optional<uint64_t> energy() const;

 private:
  Nvml() = default;

  struct Library;
  std::unique_ptr<Library> library_;
};

/// One reading of the counter.
struct EnergySample {
  double seconds = 0;
  uint64_t millijoules = 0;
};

struct MeanPower {
  double watts = 0;
  int64_t updates = 0;  // steps of the counter that the mean covers
};

/// Returns the mean power of the samples. The counter advances in steps, every 20 to 100 ms. Energy
/// and time are both known only at a step. So the mean goes from the first step in the samples to
/// the last. Returns none if there are fewer than kLeastUpdates steps.
std::optional<MeanPower> mean_power(const std::vector<EnergySample>& samples);
constexpr int64_t kLeastUpdates = 10;

/// Returns millijoules; none if the counter cannot be read. Called from another thread.
using EnergyCounter = std::function<std::optional<uint64_t>()>;

/// Reads the counter every 5 ms on a thread of its own, from construction until end().
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
  std::optional<double> sm_clock_mean_mhz, sm_clock_min_mhz;       // over the samples that have it
  double sm_clock_max_mhz = 0;                                     // limit of the device
  std::optional<double> memory_clock_mhz, temperature_c, power_w;  // from the last sample
  uint64_t throttle_reasons = 0;                                   // union over all samples
};

/// Summarizes the samples, of which there must be at least one. `sm_clock_max_mhz` is the device's
/// highest clock.
GpuConditions gpu_conditions(const std::vector<GpuState>& samples, double sm_clock_max_mhz);

struct Conditions {
  double wall_seconds = 0;
  /// Sum over all threads of the time in which they were runnable and did not run; none if the
  /// kernel does not tell.
  std::optional<double> cpu_wait_seconds;
  /// Time in which no thread ran, since a signal had stopped the process or the machine slept
  /// (StopDetector).
  double stopped_seconds = 0;
  std::optional<double> other_cpus;  // CPUs that other programs and the hypervisor used
  std::optional<GpuConditions> gpu;
};

/// Returns the seconds that all CPUs of the machine were busy or taken by the hypervisor, from the
/// text of /proc/stat, whose unit is 1 / `ticks` s. None if the text does not have them.
std::optional<double> busy_seconds(std::istream& stat, double ticks);

/// Returns the reasons to distrust a round's times: "sm_clock" (mean below 75 % of the device's
/// maximum), names of throttle_names(), "cpu_wait" (over 10 % of the wall time), "stopped" (over 1
/// %).
std::vector<std::string> suspect_reasons(const Conditions& conditions);

/// Returns the PCI bus id of a CUDA device in NVML's form.
std::string pci_bus_id(at::Device device);

/// Finds the times in which a process did not run. One of its threads calls tick() at regular
/// intervals. If a call comes late by more than kLongestDelay, the process was stopped. A waiting
/// thread gets a CPU within milliseconds, even on a busy machine.
class StopDetector {
 public:
  using Duration = std::chrono::duration<double>;
  static constexpr Duration kLongestDelay{0.25};

  /// All times are from one clock, which goes on while the machine sleeps.
  StopDetector(Duration interval, Duration begin) : interval_(interval), last_(begin) {}

  void tick(Duration now);
  double stopped_seconds() const { return stopped_.count(); }

 private:
  Duration interval_, last_, stopped_{0};
};

/// Samples the conditions every 50 ms on a thread of its own, from begin() to end().
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
