#include "harness/machine/watchdog.h"

#include <chrono>

#include "base/nvtx.h"

namespace rtfx {

Watchdog::Watchdog(std::function<void()> bark)
    : bark_(std::move(bark)), thread_([this] { wait(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::set(std::optional<double> seconds) {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
  if (seconds) {
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(*seconds));
  }
  changed_.notify_one();
}

void Watchdog::wait() {
  name_thread("rtfx watchdog");
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (const auto until = *deadline_; Clock::now() < until) {
      changed_.wait_until(lock, until);
    } else {
      deadline_.reset();
      bark_();
    }
  }
}

}  // namespace rtfx
