// All tokens of one state, by a block of threads. No LibTorch here: kernels include it.
#pragma once

#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx {

/// ln p(token | state) for all V tokens into `scores`, the states after them into `next` (may be
/// null). The shortest context has all tokens; each longer one overwrites those that it has. Ends
/// with a barrier.
template <class Block>
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

}  // namespace rtfx
