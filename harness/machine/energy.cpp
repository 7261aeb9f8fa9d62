#include "harness/machine/energy.h"

#include <chrono>
#include <utility>

#include "base/nvtx.h"

namespace rtfx {
namespace {

constexpr auto kReadingInterval = std::chrono::milliseconds(5);

}  // namespace

std::optional<MeanPower> mean_power(const std::vector<EnergySample>& samples) {
  const EnergySample *first = nullptr, *last = nullptr;
  int64_t updates = -1;  // between the first step and the last
  for (size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].millijoules == samples[i - 1].millijoules) continue;
    if (first == nullptr) first = &samples[i];
    last = &samples[i];
    ++updates;
  }
  if (updates < kLeastUpdates) return std::nullopt;
  const auto millijoules = static_cast<double>(last->millijoules - first->millijoules);
  return MeanPower{1e-3 * millijoules / (last->seconds - first->seconds), updates};
}

EnergyMeter::EnergyMeter(EnergyCounter counter)
    : counter_(std::move(counter)), thread_([this] { sample(); }) {}

EnergyMeter::~EnergyMeter() { end(); }

void EnergyMeter::sample() {
  name_thread("rtfx energy");
  std::unique_lock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  do {
    const auto millijoules = counter_();
    if (!millijoules) return;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin;
    samples_.push_back({since.count(), *millijoules});
  } while (!wake_.wait_for(lock, kReadingInterval, [this] { return stop_; }));
}

std::optional<MeanPower> EnergyMeter::end() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  return mean_power(samples_);
}

}  // namespace rtfx
