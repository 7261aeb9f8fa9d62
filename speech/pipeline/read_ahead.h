// Reads items on threads of its own, ahead of the thread that needs them.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace rtfx {

struct ReadAheadLimits {
  size_t threads = 1;
  size_t items = 1;  // items that are read or being read, and not taken yet
  size_t bytes = 0;  // bytes of the items read; with more, no other item is begun; 0 = any number
};

/// Limits for recordings that are read ahead of a model.
inline constexpr size_t kReadAheadRecordings = 4096;
inline constexpr size_t kReadAheadBytes = size_t{1} << 30;  // samples of 4.6 hours

/// Reads items 0 .. count - 1 in this order, for one thread that takes them in this order.
template <class Item>
class ReadAhead {
 public:
  /// `read` reads an item on any thread, and throws where it cannot. `size` returns an item's
  /// bytes.
  ReadAhead(size_t count, const ReadAheadLimits& limits, std::function<Item(size_t)> read,
            std::function<size_t(const Item&)> size)
      : count_(count), limits_(limits), read_(std::move(read)), size_(std::move(size)) {
    const size_t threads = std::min({count, limits.threads, limits.items});
    try {
      for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // fewer threads read all items
      if (threads_.empty()) throw;
    }
  }
  /// Waits for the items that are being read.
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Only the thread that takes items may call these.
  bool more() const { return taken_ < count_; }
  size_t index() const { return taken_; }

  /// Waits for item index(), and returns it or throws what reading it threw. Adds 1 to index().
  /// Requires more().
  Item next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(taken_); });
    auto node = done_.extract(taken_);
    ++taken_;
    Done& done = node.mapped();
    bytes_ -= done.bytes;
    lock.unlock();
    changed_.notify_all();
    if (done.error) std::rethrow_exception(done.error);
    return std::move(*done.item);
  }

 private:
  struct Done {
    std::optional<Item> item;
    std::exception_ptr error;
    size_t bytes = 0;
  };

  bool may_begin() const {
    if (begun_ == taken_) return true;  // next() waits for it
    return begun_ - taken_ < limits_.items && (limits_.bytes == 0 || bytes_ < limits_.bytes);
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || begun_ == count_ || may_begin(); });
      if (stopped_ || begun_ == count_) return;
      const size_t index = begun_++;
      lock.unlock();
      Done done;
      try {
        done.item = read_(index);
        done.bytes = size_(*done.item);
      } catch (...) {
        done.error = std::current_exception();
      }
      lock.lock();
      bytes_ += done.bytes;
      done_.emplace(index, std::move(done));
      changed_.notify_all();
    }
  }

  const size_t count_;
  const ReadAheadLimits limits_;
  const std::function<Item(size_t)> read_;
  const std::function<size_t(const Item&)> size_;
  std::mutex mutex_;  // guards all below; taken_ is written by one thread
  std::condition_variable changed_;
  size_t begun_ = 0, taken_ = 0, bytes_ = 0;
  bool stopped_ = false;
  std::map<size_t, Done> done_;
  std::vector<std::thread> threads_;
};

}  // namespace rtfx
