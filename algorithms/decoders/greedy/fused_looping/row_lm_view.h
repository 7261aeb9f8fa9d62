// A row with a language model has a bonus for each possible next token (greedy_fusion.h). The
// bonuses are stored for the whole vocabulary, like those of contextual biasing (row_bias_view.h).
// So the joint phase loads one number for each token. When a row has a new token, a block of
// threads writes the scores of its new state. The shortest context has all tokens, and each longer
// one overwrites those that it has. Beside the bonus stands the state after each token: finding the
// new state takes one load instead of a search in the arcs, and its contexts two more
// (LmContextTable). No LibTorch header is included here.
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

  /// Stores what belongs to a token with this ln p; more: what `added` has for it. The product is
  /// rounded before the sum, as in GreedyFusion. It stays finite where p is 0, since kNever means
  /// that a token is forbidden.
  RTFX_DEVICE void set(int32_t token, float score, float more, int32_t to) const {
#ifdef __CUDA_ARCH__
    float sum = __fmul_rn(alpha, score);
#else
    float sum = alpha * score;
#endif
    if (sum < kLeastBonus) sum = kLeastBonus;
    if (added != nullptr) sum += more;
    bonus[token] = sum;
    next[token] = to;
  }
};

/// The contexts of a state are its own tokens, those without the first, and so on. A table has
/// those behind the first for each state. So two loads that follow each other find them, where a
/// walk along the back-offs takes one load for each context.
struct LmContextTable {
  const int32_t* shorter;  // [S][most - 1] states, the longest context first; 0: the empty one
  int32_t most;            // contexts of a state that are not empty, at most: order - 1

  /// Context i of a state.
  RTFX_DEVICE int32_t context(int32_t state, int32_t i) const {
    if (i >= most) return 0;
    return i == 0 ? state
                  : load_constant(shorter + static_cast<int64_t>(state) * (most - 1) + i - 1);
  }
};

/// The arcs and weights of the contexts of a row's state, in memory that a block of threads shares:
/// the longest context first, the empty one last. Those between that the state lacks have no arcs.
struct LmContexts {
  static constexpr int32_t kEmpty = kMaxLmOrder - 1;

  int32_t begin[kMaxLmOrder], end[kMaxLmOrder];  // arcs
  float backoff[kMaxLmOrder];                    // weight
};

/// Finds the contexts of a state, all at once. Ends without a barrier.
template <ThreadBlock Block>
RTFX_DEVICE void find_contexts(const Block& block, const NgramView& lm, const LmContextTable& table,
                               int32_t state, LmContexts& contexts) {
  RTFX_ROLLED
  for (int32_t i = block.thread(); i < kMaxLmOrder; i += block.threads()) {
    const bool empty = i == LmContexts::kEmpty;
    const int32_t context = empty ? 0 : table.context(state, i);
    int32_t begin = 0, end = empty ? lm.vocabulary : 0;
    float backoff = 0;
    if (context != 0) {  // all three loads before the first store
      const int32_t* const arcs = lm.state_arcs + 2 * static_cast<int64_t>(context);
      begin = load_constant(arcs);
      end = load_constant(arcs + 1);
      backoff = load_constant(lm.backoff_weight + context);
    }
    contexts.begin[i] = begin;
    contexts.end[i] = end;
    contexts.backoff[i] = backoff;
  }
}

/// Writes the bonuses of a row whose state has these contexts, which threads of the block may have
/// written without a barrier since, like what `added` has. kAtOnce: arcs of a thread that are
/// loaded before the first is stored. Few instructions, since each is fetched once for a row. Ends
/// with a barrier.
template <int kAtOnce = 1, ThreadBlock Block>
RTFX_DEVICE void write_bonuses(const Block& block, const NgramView& lm, const LmContexts& contexts,
                               const RowLmView& row) {
  block.sync();  // the contexts and `added` are there, and all threads have read the last bonuses
  RTFX_ROLLED
  for (int32_t i = LmContexts::kEmpty; i >= 0; --i) {
    const int32_t end = contexts.end[i];
    if (contexts.begin[i] == end) continue;
    if (i < LmContexts::kEmpty) block.sync();  // the shorter contexts are written
    float backoff = 0;
    RTFX_ROLLED
    for (int32_t longer = 0; longer < i; ++longer) backoff += contexts.backoff[longer];
    RTFX_ROLLED
    for (int32_t from = contexts.begin[i] + block.thread(); from < end;
         from += kAtOnce * block.threads()) {
      int32_t label[kAtOnce] = {}, to[kAtOnce] = {};
      float weight[kAtOnce] = {}, more[kAtOnce] = {};
      RTFX_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t arc = from + k * block.threads();
        if (arc >= end) continue;
        label[k] = load_constant(lm.arc_label + arc);
        to[k] = load_constant(lm.arc_to + arc);
        weight[k] = load_constant(lm.arc_weight + arc);
      }
      if (row.added != nullptr) {
        RTFX_UNROLL
        for (int k = 0; k < kAtOnce; ++k)
          if (from + k * block.threads() < end) more[k] = load_written(row.added + label[k]);
      }
      RTFX_UNROLL
      for (int k = 0; k < kAtOnce; ++k)
        if (from + k * block.threads() < end)
          row.set(label[k], backoff + weight[k], more[k], to[k]);
    }
  }
  block.sync();  // the contexts may be overwritten
}

}  // namespace rtfx::fused
