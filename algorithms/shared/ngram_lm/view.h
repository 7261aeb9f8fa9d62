// The device side of an n-gram language model: its arrays as plain pointers. look_up() gives the
// score of one token of a state, and advance_row() those of all tokens. The launches of both are
// here too. Kernels include this file, so it includes no LibTorch header.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "algorithms/gpu/thread_block.h"
#include "base/gpu/host_device.h"

namespace rtfx {

/// The upper bound of the order of a model, and so of the number of states on a back-off path.
constexpr int kMaxLmOrder = 10;

/// See NgramArrays. The memory belongs to an NgramLm, which must outlive the view.
struct NgramView {
  const int32_t* arc_to;
  const int32_t* arc_label;
  const float* arc_weight;
  const int32_t* state_arcs;  // [S, 2]
  const int32_t* backoff_to;
  const float* backoff_weight;
  int32_t vocabulary;
};

struct Transition {
  float score;  // ln p(label | state)
  int32_t next;
};

/// Returns score and next state of one token. A label outside [0, V) has score 0 and keeps the
/// state. Back-off weights are added from the longest context to the shortest, then the weight of
/// the arc. Every form of the evaluation keeps this order, so that all agree bit for bit.
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

/// Writes ln p(token | state) for all V tokens to `scores`, and the states after them to `next`
/// (may be null). A block of threads shares the work. The shortest context has all tokens, and each
/// longer one overwrites those that it has. Ends with a barrier.
template <ThreadBlock Block>
RTFX_DEVICE void advance_row(const Block& block, const NgramView& lm, int32_t state, float* scores,
                             int32_t* next) {
  struct Context {
    int32_t begin, end;
    float backoff;
  };
  Context contexts[kMaxLmOrder];
  int32_t depth = 0;
  for (float backoff = 0;; state = lm.backoff_to[state]) {
    const int32_t* arcs = lm.state_arcs + 2 * static_cast<int64_t>(state);
    contexts[depth++] = {arcs[0], arcs[1], backoff};
    if (state == 0) break;
    backoff += lm.backoff_weight[state];
  }
  while (depth-- > 0) {
    const Context context = contexts[depth];
    for (int32_t arc = context.begin + block.thread(); arc < context.end; arc += block.threads()) {
      const int32_t label = load_constant(lm.arc_label + arc);
      scores[label] = context.backoff + load_constant(lm.arc_weight + arc);
      if (next != nullptr) next[label] = load_constant(lm.arc_to + arc);
    }
    block.sync();
  }
}

/// Enqueues advance_row() for states [rows], with a block for each row: scores [rows, V], next
/// [rows, V] (may be null). Pointers are device memory. The call allocates nothing, does not wait,
/// and can be recorded into a graph. Throws std::runtime_error if the launch fails.
void launch_advance(const NgramView& lm, const int32_t* states, int64_t rows, float* scores,
                    int32_t* next, cudaStream_t stream);

/// Enqueues look_up() for states [rows] and labels [rows, columns], with a thread for each label:
/// scores (may be null) and next [rows, columns]. The conditions are those of launch_advance().
void launch_lookup(const NgramView& lm, const int32_t* states, const int64_t* labels, int64_t rows,
                   int64_t columns, float* scores, int32_t* next, cudaStream_t stream);

}  // namespace rtfx
