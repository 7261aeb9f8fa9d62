#include "speech/pipeline/regions.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <ctime>
#include <numeric>

#include "base/error.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

/// Seconds on CPUs of all threads of this process.
double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double RegionTimes::total() const { return std::accumulate(host.begin(), host.end(), 0.0); }

void RegionTimes::settle() {
  for (const Enqueued& region : enqueued) {
    region.end->synchronize();
    device[static_cast<size_t>(region.region)] += region.begin->elapsedTime(*region.end) * 1e-3;
  }
  enqueued.clear();
}

RegionTimes& RegionTimes::operator+=(const RegionTimes& other) {
  RTFX_CHECK(enqueued.empty() && other.enqueued.empty(), "times that are not settled");
  for (size_t i = 0; i < kRegions; ++i) {
    host[i] += other.host[i];
    device[i] += other.device[i];
  }
  wall += other.wall;
  cpu += other.cpu;
  return *this;
}

WallClock::WallClock(RegionTimes& times)
    : times_(times), begin_(std::chrono::steady_clock::now()), cpu_begin_(process_cpu_seconds()) {}

WallClock::~WallClock() {
  times_.cpu += process_cpu_seconds() - cpu_begin_;
  times_.wall += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void RegionClock::measure(Region region, size_t rows, RegionTimes& times,
                          const std::function<void()>& work) const {
  using Clock = std::chrono::steady_clock;
  const auto index = static_cast<size_t>(region);
  const auto count = static_cast<int64_t>(rows);
  if (!device_.is_cuda()) {
    const ScopedRange range(range_of(region), count);
    const auto begin = Clock::now();
    work();
    times.host[index] += std::chrono::duration<double>(Clock::now() - begin).count();
    return;
  }
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto event = [] {
    return std::make_shared<c10::Event>(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  };
  const RegionTimes::Enqueued enqueued{region, event(), event()};
  const auto begin = Clock::now();
  enqueued.begin->record(stream);
  {
    const ScopedRange range(range_of(region), count);
    work();
    enqueued.end->record(stream);
    if (mode_ == Mode::isolated) {
      const ScopedRange waiting(RangeName::wait);  // by which a profile leaves this wait out
      synchronize(device_);
    }
  }
  times.host[index] += std::chrono::duration<double>(Clock::now() - begin).count();
  times.enqueued.push_back(enqueued);
  if (mode_ == Mode::isolated) times.settle();
}

}  // namespace rtfx
