// The samples of one stream, as far as they are still needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rtfx {

class StreamAudio {
 public:
  /// Further samples, in pieces of any size; none after finish().
  void push(std::span<const float> samples);
  void finish() { finished_ = true; }

  bool finished() const { return finished_; }
  /// Samples so far, counted from the stream's begin.
  int64_t received() const { return first_ + static_cast<int64_t>(samples_.size()); }

  /// Samples from `first` on; zeros before the stream's begin and behind what was received. What
  /// was forgotten must not be asked for.
  void copy(int64_t first, std::span<float> into) const;
  /// Samples before `first` are not asked for again. Their memory is given back now and then.
  void forget(int64_t first);

 private:
  std::vector<float> samples_;
  int64_t first_ = 0;      // which sample of the stream samples_.front() is
  int64_t forgotten_ = 0;  // samples before this one may go
  bool finished_ = false;
};

}  // namespace rtfx
