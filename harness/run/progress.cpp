#include "harness/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"

namespace rtfx {

namespace {

/// The end, which says batch and type, where the whole has no room.
std::string shortened(const std::string& label) {
  constexpr size_t kMost = 46;
  if (label.size() <= kMost) return label;
  size_t begin = label.size() - kMost + 1;
  while (begin < label.size() && (static_cast<unsigned char>(label[begin]) & 0xC0) == 0x80) ++begin;
  return "…" + label.substr(begin);
}

}  // namespace

Progress::Progress(int64_t steps)
    : steps_(std::max<int64_t>(1, steps)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::label(const std::string& label) {
  const std::string text = printable(label);
  if (!terminal_ && text != label_) fmt::print(stderr, "[{}/{}] {}\n", done_, steps_, text);
  label_ = text;
  draw();
}

void Progress::advance(int64_t steps) {
  done_ = std::min(steps_, done_ + steps);
  constexpr auto kRedraw = std::chrono::milliseconds(100);
  if (Clock::now() - drawn_ > kRedraw) draw();
}

void Progress::draw() {
  if (!terminal_) return;
  drawn_ = Clock::now();
  constexpr int64_t kWidth = 24;
  const auto filled = static_cast<size_t>(kWidth * done_ / steps_);
  const double elapsed = std::chrono::duration<double>(drawn_ - begin_).count();
  const auto left = done_ == 0 ? 0
                               : static_cast<int64_t>(elapsed / static_cast<double>(done_) *
                                                      static_cast<double>(steps_ - done_));
  const std::string time = done_ == 0 ? "--:--" : fmt::format("{:02}:{:02}", left / 60, left % 60);
  fmt::print(stderr, "\r\033[K[{}{}] {:3}% {} left  {}", std::string(filled, '#'),
             std::string(kWidth - filled, ' '), 100 * done_ / steps_, time, shortened(label_));
  std::fflush(stderr);
}

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace rtfx
