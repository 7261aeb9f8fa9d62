// The bonus of each possible next token of a row with a language model (greedy_fusion.h), stored
// for the whole vocabulary as that of contextual biasing is (row_bias_view.h), so that the joint
// phase loads one number for each token. When a row has a new token, a block of threads writes the
// scores of its new state. The shortest context has all tokens, and each longer one overwrites
// those that it has. Beside the bonus stands the state after each token: finding the new state
// takes one load instead of a search in the arcs. No LibTorch header is included here.
#pragma once

#include <limits>

#include "algorithms/decoders/greedy/fused_looping/row_bias_view.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx::fused {

constexpr float kLeastBonus = std::numeric_limits<float>::lowest();  // of a language model

/// The language model of one row.
struct RowLmView {
  float* bonus;        // [V] alpha ln p(token | state), and what `added` has
  int32_t* next;       // [V] state after the token
  const float* added;  // [V] RowBiasView::added; nullptr: there is no biasing
  float alpha;

  /// The state after `token`.
  RTFX_DEVICE int32_t state_after(int32_t token) const { return load_written(next + token); }

  /// Stores what belongs to a token with this ln p. The product is rounded before the sum, as in
  /// GreedyFusion. It stays finite where p is 0, since kNever means that a token is forbidden.
  RTFX_DEVICE void set(int32_t token, float score, int32_t to) const {
#ifdef __CUDA_ARCH__
    float sum = __fmul_rn(alpha, score);
#else
    float sum = alpha * score;
#endif
    if (sum < kLeastBonus) sum = kLeastBonus;
    if (added != nullptr) sum += load_written(added + token);
    bonus[token] = sum;
    next[token] = to;
  }
};

/// Brings the row into the state find_state() of the language model, and returns it. What `added`
/// has may have been written by the threads of this block without a barrier since. kAtOnce: tokens
/// of a thread that are loaded before the first is stored.
template <int kAtOnce = 1, ThreadBlock Block, class FindState>
RTFX_DEVICE int32_t change_lm_state(const Block& block, const NgramView& lm, const RowLmView& row,
                                    const FindState& find_state) {
  constexpr int kContexts = kMaxLmOrder - 1;  // but for the empty one
  // All loads that can start do so before the first result is needed: those of the empty context,
  // whose arcs are of all tokens, and this thread's first arc of each other context.
  float weight[kAtOnce] = {};
  int32_t to[kAtOnce] = {};
  const auto load_tokens = [&](int32_t from) {
    RTFX_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t k = from + i * block.threads();
      if (k >= lm.vocabulary) continue;
      weight[i] = load_constant(lm.arc_weight + k);
      to[i] = load_constant(lm.arc_to + k);
    }
  };
  load_tokens(block.thread());

  struct Arc {
    int32_t label, to;
    float weight;
  };
  const auto load_arc = [&](int32_t arc) {
    return Arc{load_constant(lm.arc_label + arc), load_constant(lm.arc_to + arc),
               load_constant(lm.arc_weight + arc)};
  };
  const int32_t state = find_state();
  int32_t begin[kContexts], end[kContexts];  // the longest context first
  float backoffs[kContexts];
  Arc first[kContexts];
  int32_t context = state;
  float backoff = 0;
  RTFX_UNROLL
  for (int i = 0; i < kContexts; ++i) {
    begin[i] = end[i] = 0;
    backoffs[i] = backoff;
    first[i] = {};
    if (context == 0) continue;
    const int32_t* const arcs = lm.state_arcs + 2 * static_cast<int64_t>(context);
    begin[i] = load_constant(arcs);
    end[i] = load_constant(arcs + 1);
    const int32_t arc = begin[i] + block.thread();
    if (arc < end[i]) first[i] = load_arc(arc);
    backoff += load_constant(lm.backoff_weight + context);
    context = load_constant(lm.backoff_to + context);
  }

  block.sync();  // all have read what is written now, and `added` is there
  for (int32_t from = block.thread(); from < lm.vocabulary; from += kAtOnce * block.threads()) {
    if (from != block.thread()) load_tokens(from);
    RTFX_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (const int32_t k = from + i * block.threads(); k < lm.vocabulary)
        row.set(k, backoff + weight[i], to[i]);
  }
  RTFX_UNROLL
  for (int i = kContexts - 1; i >= 0; --i) {
    if (begin[i] == end[i]) continue;
    block.sync();  // the shorter contexts are written
    for (int32_t arc = begin[i] + block.thread(); arc < end[i]; arc += block.threads()) {
      const Arc a = arc == begin[i] + block.thread() ? first[i] : load_arc(arc);
      row.set(a.label, backoffs[i] + a.weight, a.to);
    }
  }
  return state;
}

}  // namespace rtfx::fused
