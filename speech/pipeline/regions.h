// Where the time goes: a closed vocabulary of regions, each an NVTX range of the same name.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/nvtx.h"

namespace rtfx {

/// pad: a batch of the utterances' samples in memory that the device can read; h2d: its copy there;
/// confidence: where a configuration asks for it.
enum class Region { pad, h2d, features, encoder, decode, d2h, detokenize, confidence };
constexpr size_t kRegions = 8;
constexpr RangeName range_of(Region region) { return static_cast<RangeName>(region); }
static_assert(range_of(Region::confidence) == RangeName::confidence);

constexpr std::array<const char*, kRegions> kRegionNames = [] {
  std::array<const char*, kRegions> names{};
  for (size_t i = 0; i < kRegions; ++i) names[i] = kVocabulary[i].name;
  return names;
}();

/// Seconds per region. `device`: between CUDA events around the region; stays 0 on the CPU.
struct RegionTimes {
  /// A region that was enqueued without waiting for its end.
  struct Enqueued {
    Region region;
    std::shared_ptr<c10::Event> begin, end;
  };

  std::array<double, kRegions> host{};
  std::array<double, kRegions> device{};
  /// From before the first region to after the last, by a clock of its own (WallClock): what lies
  /// between regions counts too.
  double wall = 0;
  double cpu = 0;  // in the same time, of all threads of the process, those that only wait included
  std::vector<Enqueued> enqueued;

  double& seconds(Region region) { return host[static_cast<size_t>(region)]; }
  double seconds(Region region) const { return host[static_cast<size_t>(region)]; }
  double total() const;
  /// Adds the time of what was enqueued to `device`; waits for its end.
  void settle();
  /// Both are settled.
  RegionTimes& operator+=(const RegionTimes& other);
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
  /// Whether a region ends with a wait for the device.
  enum class Mode { isolated, overlapped };

  explicit RegionClock(at::Device device, Mode mode = Mode::isolated)
      : device_(device), mode_(mode) {}

  /// Runs `work` inside the region's NVTX range and adds its time. `rows`: of the batch. Isolated,
  /// the device is idle at the start (as every region leaves it) and at the end. Overlapped,
  /// nothing waits: the host's time is that of `work` alone, the device's comes with
  /// RegionTimes::settle().
  void measure(Region region, size_t rows, RegionTimes& times,
               const std::function<void()>& work) const;

 private:
  at::Device device_;
  Mode mode_;
};

}  // namespace rtfx
