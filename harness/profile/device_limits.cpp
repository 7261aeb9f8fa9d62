#include "harness/profile/device_limits.h"

#include <dlfcn.h>
#include <driver_types.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rtfx {
namespace {

struct Units {
  int major, minor;
  double vector, matrix;  // FLOP of a multiprocessor in a cycle
};

// Numbers of the tuning guides and white papers of each architecture. A multiprocessor has 64 or
// 128 fp32 lanes of 2 FLOP each. The matrix units of an A100 have 312 TFLOP/s, which is 108 x 2,048
// in a cycle of 1.41 GHz; those of an H100 SXM have 989, which is 132 x 4,096 at 1.83 GHz. GeForce
// cards sum in fp32 at half of the rate given here.
constexpr Units kUnits[] = {{8, 0, 128, 2048}, {8, 6, 256, 1024},  {8, 9, 256, 1024},
                            {9, 0, 256, 4096}, {10, 0, 256, 8192}, {12, 0, 256, 1024}};

/// LibTorch has loaded the CUDA runtime; rtfx itself does not link it.
double attribute(cudaDeviceAttr what, int device) {
  using Function = int (*)(int*, cudaDeviceAttr, int);
  static const auto function =
      reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute"));
  int value = 0;
  return function != nullptr && function(&value, what, device) == 0 ? value : 0;
}

}  // namespace

std::optional<double> DeviceLimits::least_seconds(double moved, double flop,
                                                  bool on_matrix_units) const {
  if (!known()) return std::nullopt;
  const double rate = on_matrix_units && matrix > 0 ? matrix : vector;
  return std::max(moved / bytes, flop / rate);
}

nlohmann::json DeviceLimits::to_json() const {
  if (!known()) return nullptr;
  return {{"bytes_per_second", bytes},
          {"vector_flop_per_second", vector},
          {"matrix_flop_per_second", matrix > 0 ? nlohmann::json(matrix) : nlohmann::json()}};
}

DeviceLimits device_limits(at::Device device) {
  if (!device.is_cuda()) return {};
  const int index = std::max(0, static_cast<int>(device.index()));
  return limits_of(attribute(cudaDevAttrMemoryClockRate, index),
                   attribute(cudaDevAttrGlobalMemoryBusWidth, index),
                   attribute(cudaDevAttrMultiProcessorCount, index),
                   attribute(cudaDevAttrClockRate, index),
                   static_cast<int>(attribute(cudaDevAttrComputeCapabilityMajor, index)),
                   static_cast<int>(attribute(cudaDevAttrComputeCapabilityMinor, index)));
}

DeviceLimits limits_of(double memory_khz, double bus_bits, double processors, double clock_khz,
                       int major, int minor) {
  DeviceLimits limits;
  limits.bytes = 2 * memory_khz * 1e3 * bus_bits / 8;  // two transfers in a cycle
  const auto units = std::ranges::find_if(
      kUnits, [&](const Units& one) { return one.major == major && one.minor == minor; });
  // 64 lanes have all of capability 5 or later.
  limits.vector = processors * clock_khz * 1e3 * (units == std::end(kUnits) ? 128 : units->vector);
  if (units != std::end(kUnits)) limits.matrix = processors * clock_khz * 1e3 * units->matrix;
  return limits;
}

}  // namespace rtfx
