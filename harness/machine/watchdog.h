// A thread that waits for a call to come back.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace rtfx {

class Watchdog {
 public:
  /// `bark`: called on the watchdog's thread when the time that set() gave has passed.
  explicit Watchdog(std::function<void()> bark);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now on so many seconds, in place of what was set before; none: no limit.
  void set(std::optional<double> seconds);

 private:
  using Clock = std::chrono::steady_clock;

  void wait();

  std::function<void()> bark_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> deadline_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace rtfx
