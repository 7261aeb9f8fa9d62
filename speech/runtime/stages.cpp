#include "speech/runtime/stages.h"

#include <condition_variable>
#include <csignal>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "base/nvtx.h"

namespace rtfx {

namespace {

volatile std::sig_atomic_t caught = 0;

extern "C" void on_signal(int) {
  caught = 1;
  // A second signal of either kind ends the process at once.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool is_interrupted() { return caught != 0; }

void check_interrupt() {
  if (is_interrupted()) throw Interrupted();
}

namespace {

/// Counts the items that each stage has finished. A stage waits for the one before it, and the
/// first one for the last.
class StageProgress {
 public:
  StageProgress(size_t stages, size_t in_flight) : done_(stages), in_flight_(in_flight) {}

  /// Waits until `stage` may begin `item`. Returns false where there is no such item.
  bool wait(size_t stage, size_t item) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] {
      return stage == 0 ? item < done_.back() + in_flight_ : item < done_[stage - 1];
    };
    changed_.wait(lock, [&] { return failure_ || item >= items_ || ready(); });
    return !failure_ && item < items_;
  }

  void finish(size_t stage) {
    const std::lock_guard lock(mutex_);
    ++done_[stage];
    changed_.notify_all();
  }

  /// Sets the number of items.
  void end(size_t items) {
    const std::lock_guard lock(mutex_);
    items_ = items;
    changed_.notify_all();
  }

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    changed_.notify_all();
  }

  /// Throws the failure, if there is one. Call it when all stages have ended.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<size_t> done_;  // finished items of each stage
  size_t in_flight_;
  size_t items_ = std::numeric_limits<size_t>::max();
  std::exception_ptr failure_;
};

}  // namespace

void run_stages(const std::vector<Stage>& stages, size_t in_flight,
                const std::function<bool(size_t)>& more,
                const std::function<std::shared_ptr<void>()>& enter) {
  if (in_flight == 1) {
    for (size_t item = 0; more(item); ++item)
      for (const Stage& stage : stages) stage.work(item);
    return;
  }
  StageProgress progress(stages.size(), in_flight);
  const auto run = [&](size_t stage) {
    name_thread(stages[stage].name);
    try {
      const std::shared_ptr<void> scope = enter();
      for (size_t item = 0; progress.wait(stage, item); ++item) {
        if (stage == 0 && !more(item)) return progress.end(item);
        stages[stage].work(item);
        progress.finish(stage);
      }
    } catch (...) {
      progress.fail(std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (size_t stage = 0; stage < stages.size(); ++stage) threads.emplace_back(run, stage);
    } catch (...) {  // begun threads would wait for ever for a missing one
      progress.fail(std::current_exception());
    }
  }
  progress.rethrow();
}

}  // namespace rtfx
