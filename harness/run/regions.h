// Where the time goes: a closed vocabulary of regions, each an NVTX range of the same name.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace rtfx {

enum class Region { h2d, features, encoder, decode, d2h, detokenize };
constexpr size_t kRegions = 6;
constexpr std::array<const char*, kRegions> kRegionNames = {"h2d",    "features", "encoder",
                                                            "decode", "d2h",      "detokenize"};

/// Seconds per region. `device`: between CUDA events around the region; stays 0 on the CPU.
struct RegionTimes {
  std::array<double, kRegions> host{};
  std::array<double, kRegions> device{};

  double& of(Region region) { return host[static_cast<size_t>(region)]; }
  double of(Region region) const { return host[static_cast<size_t>(region)]; }
  double total() const;
  RegionTimes& operator+=(const RegionTimes& other);
  nlohmann::json to_json(bool with_device) const;
};

class RegionClock {
 public:
  explicit RegionClock(at::Device device) : device_(device) {}

  /// Runs `work` inside the region's NVTX range and adds its time. The device is idle at the start
  /// (every region ends with a synchronisation) and at the end.
  void measure(Region region, RegionTimes& times, const std::function<void()>& work) const;

 private:
  at::Device device_;
};

}  // namespace rtfx
