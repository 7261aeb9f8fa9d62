// The machine's conditions while a round ran: clocks, throttling, and waiting for a CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/machine/nvml.h"

namespace rtfx {

struct GpuConditions {
  double sm_clock_mean_mhz = 0, sm_clock_min_mhz = 0, sm_clock_max_mhz = 0;  // max: of the device
  double memory_clock_mhz = 0, temperature_c = 0, power_w = 0;               // the last sample's
  uint64_t throttle_reasons = 0;  // of all samples together
};

struct Conditions {
  double wall_seconds = 0;
  std::optional<double> cpu_wait_seconds;  // of all threads: runnable, yet not running. None where
                                           // the kernel does not tell
  std::optional<GpuConditions> gpu;
};

/// Reasons to distrust a round's times: "sm_clock" (mean below 75 % of the device's maximum),
/// names of throttle_names(), "cpu_wait" (over 10 % of the wall time).
std::vector<std::string> suspect_reasons(const Conditions& conditions);

/// PCI bus id of a CUDA device, as NVML takes it.
std::string pci_bus_id(at::Device device);

/// Samples from begin() to end(); on a GPU by a thread of its own, every 50 ms.
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
