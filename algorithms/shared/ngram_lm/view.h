// A language model's arrays as plain pointers, for kernels, and one token of one state.
#pragma once

#include <cstdint>

#include "base/gpu/host_device.h"

namespace rtfx {

/// A state and all that it backs off to are never more.
constexpr int kMaxLmOrder = 10;

/// See NgramArrays. The memory belongs to an NgramLm, which must outlive the view.
struct NgramView {
  const int32_t* arc_to;
  const int32_t* arc_label;
  const float* arc_weight;
  const int32_t* state_arcs;  // 2 per state
  const int32_t* backoff_to;
  const float* backoff_weight;
  int32_t vocabulary;
};

struct Transition {
  float score;  // ln p(label | state)
  int32_t next;
};

/// Back-off weights are added from the longest context to the shortest, then the arc's: every form
/// of the evaluation keeps this order, so that all agree bit for bit.
RTFX_HOST_DEVICE inline Transition look_up(const NgramView& lm, int32_t state, int64_t label) {
  if (label < 0 || label >= lm.vocabulary) return {0.0f, state};
  float backoff = 0;
  while (state != 0) {
    const int32_t* arcs = lm.state_arcs + 2 * static_cast<int64_t>(state);
    int32_t begin = arcs[0], end = arcs[1];
    while (begin < end) {
      const int32_t middle = begin + (end - begin) / 2;
      if (lm.arc_label[middle] < label) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    if (begin < arcs[1] && lm.arc_label[begin] == label)
      return {backoff + lm.arc_weight[begin], lm.arc_to[begin]};
    backoff += lm.backoff_weight[state];
    state = lm.backoff_to[state];
  }
  return {backoff + lm.arc_weight[label], lm.arc_to[label]};
}

}  // namespace rtfx
