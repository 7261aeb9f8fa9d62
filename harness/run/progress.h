// How far a long run is: a bar with the time left on a terminal, one line per case elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rtfx {

class Progress {
 public:
  /// `steps`: how many advance() calls make the whole.
  explicit Progress(int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void label(const std::string& label);
  void advance(int64_t steps = 1);

 private:
  void draw();
  void clear();

  using Clock = std::chrono::steady_clock;
  int64_t steps_, done_ = 0;
  bool terminal_;
  std::string label_;
  Clock::time_point begin_ = Clock::now(), drawn_{};
};

}  // namespace rtfx
