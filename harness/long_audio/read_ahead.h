// Samples that are read while those before are worked on.
#pragma once

#include <functional>
#include <future>
#include <utility>
#include <vector>

namespace rtfx {

class ReadAhead {
 public:
  /// The next `count` samples; fewer only at the end.
  using Read = std::function<std::vector<float>(size_t count)>;

  /// Calls `read` for so many samples at a time, by a thread at a time.
  ReadAhead(Read read, size_t count) : read_(std::move(read)), count_(count) { begin(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next samples; none at the end. Throws what `read` threw.
  std::vector<float> next() {
    std::vector<float> samples = ahead_.get();
    if (!samples.empty()) begin();
    return samples;
  }

 private:
  void begin() {
    ahead_ = std::async(std::launch::async, [this] { return read_(count_); });
  }

  Read read_;
  size_t count_;
  std::future<std::vector<float>> ahead_;
};

}  // namespace rtfx
