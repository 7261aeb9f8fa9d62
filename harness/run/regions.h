// Where the time goes: a closed vocabulary of regions, each an NVTX range of the same name.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/nvtx.h"

namespace rtfx {

/// pad: a batch of the utterances' samples in memory that the device can read; h2d: its copy there.
enum class Region { pad, h2d, features, encoder, decode, d2h, detokenize };
constexpr size_t kRegions = 7;
constexpr RangeName range_of(Region region) { return static_cast<RangeName>(region); }
static_assert(range_of(Region::detokenize) == RangeName::detokenize);

constexpr std::array<const char*, kRegions> kRegionNames = [] {
  std::array<const char*, kRegions> names{};
  for (size_t i = 0; i < kRegions; ++i) names[i] = kVocabulary[i].name;
  return names;
}();

/// Seconds per region. `device`: between CUDA events around the region; stays 0 on the CPU.
struct RegionTimes {
  std::array<double, kRegions> host{};
  std::array<double, kRegions> device{};
  /// From before the first region to after the last, by a clock of its own (WallClock): what lies
  /// between regions counts too.
  double wall = 0;
  double cpu = 0;  // in the same time, of all threads of the process, those that only wait included

  double& of(Region region) { return host[static_cast<size_t>(region)]; }
  double of(Region region) const { return host[static_cast<size_t>(region)]; }
  double total() const;
  RegionTimes& operator+=(const RegionTimes& other);
  nlohmann::json to_json(bool with_device) const;
};

/// Adds the time from its construction to its end to `times.wall`, and the process's time on CPUs
/// to `times.cpu`.
class WallClock {
 public:
  explicit WallClock(RegionTimes& times);
  ~WallClock();
  WallClock(const WallClock&) = delete;
  WallClock& operator=(const WallClock&) = delete;

 private:
  RegionTimes& times_;
  std::chrono::steady_clock::time_point begin_;
  double cpu_begin_;
};

class RegionClock {
 public:
  explicit RegionClock(at::Device device) : device_(device) {}

  /// Runs `work` inside the region's NVTX range and adds its time. The device is idle at the start
  /// (every region ends with a synchronisation) and at the end. `rows`: of the batch.
  void measure(Region region, size_t rows, RegionTimes& times,
               const std::function<void()>& work) const;

 private:
  at::Device device_;
};

}  // namespace rtfx
