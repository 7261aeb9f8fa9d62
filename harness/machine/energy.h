// Mean power of a GPU over some seconds, from its counter of energy.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rtfx {

/// A reading of the counter.
struct EnergySample {
  double seconds = 0;
  uint64_t millijoules = 0;
};

struct MeanPower {
  double watts = 0;
  int64_t updates = 0;  // of the counter, over which this is the mean
};

/// The counter goes on in steps, every 20 to 100 ms: between two of them, energy and time are both
/// known, so the mean is taken from the first step that the samples show to the last. None where
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

}  // namespace rtfx
