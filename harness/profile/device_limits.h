// The most that a device can move and compute in a second: what a roofline's shares are of.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace rtfx {

/// Limits that follow from the device's properties at its highest clocks
/// (docs/reference/profiling.md has the formulas). 0 stands for unknown.
struct DeviceLimits {
  double bytes = 0;   // of its memory, in a second
  double vector = 0;  // FLOP in a second, fp32 by its vector units
  double matrix = 0;  // the same of bf16 and fp16 by its matrix units, dense, sums in fp32

  bool known() const { return bytes > 0 && vector > 0; }
  /// Seconds that so many bytes and FLOP take at least; none where the limits are not known.
  std::optional<double> least_seconds(double moved, double flop, bool on_matrix_units) const;
  nlohmann::json to_json() const;
};

/// The limits of a GPU, from its attributes. Those of a CPU are unknown.
DeviceLimits device_limits(at::Device device);

/// From the attributes of a CUDA device: clocks in kHz, bus in bits, compute capability.
DeviceLimits limits_of(double memory_khz, double bus_bits, double processors, double clock_khz,
                       int major, int minor);

}  // namespace rtfx
