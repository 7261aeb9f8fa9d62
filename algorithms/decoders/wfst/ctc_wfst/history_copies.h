// In which order steps of a search are enqueued and what they add to the history of tokens is
// copied to the host. Apart from what a step is and who copies.
#pragma once

#include <cstdint>

namespace rtfx {

/// Steps: search(step) enqueues one; collect(step) waits for it and sends for its part of the
/// history; wait() waits for all that was sent for.
///
/// Without `double_buffer` each step begins when the host has the history of the one before. With
/// it a step is under way while the host waits for the one before and its history is copied, so
/// that collect() needs room for what two steps count.
template <class Steps>
void search_steps(Steps& steps, int64_t count, bool double_buffer) {
  for (int64_t step = 0; step < count; ++step) {
    steps.search(step);
    if (!double_buffer) {
      steps.collect(step);
      steps.wait();
    } else if (step > 0) {
      steps.collect(step - 1);
    }
  }
  if (!double_buffer || count == 0) return;
  steps.collect(count - 1);
  steps.wait();
}

}  // namespace rtfx
