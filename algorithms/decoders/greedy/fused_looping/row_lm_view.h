// A row with a language model has a bonus for each possible next token (greedy_fusion.h). The
// bonuses are stored for the whole vocabulary, like those of contextual biasing (row_bias_view.h).
// So the joint phase loads one number for each token. When a row has a new token, a block of
// threads writes the scores of its new state. The shortest context has all tokens, and each longer
// one overwrites those that it has. The state after each token is stored with the bonus. So the new
// state takes one load instead of a search in the arcs, and its contexts take two more
// (LmContextTable). No LibTorch header is included here.
#pragma once

#include <limits>

#include "algorithms/decoders/greedy/fused_looping/row_bias_view.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx::fused {

/// The lower bound of a language model's bonus, so that it stays above kNever.
constexpr float kLeastBonus = std::numeric_limits<float>::lowest();

/// The language model of one row.
struct RowLmView {
  float* bonus;        // [V] alpha ln p(token | state), plus `added` if there is one
  int32_t* next;       // [V] state after the token
  const float* added;  // [V] RowBiasView::added; nullptr: there is no biasing
  float alpha;

  /// Returns the state after `token`.
  RTFX_DEVICE int32_t state_after(int32_t token) const { return load_written(next + token); }

  /// Stores the bonus and the next state of a token. `score` is its ln p, and `more` is its entry
  /// in `added`. The product is rounded before the sum, as in GreedyFusion. It stays finite where p
  /// is 0, since kNever means that a token is forbidden.
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

/// The contexts of a state are all its tokens, its tokens without the oldest one, and so on. For
/// each state, a table holds the contexts after the first. So two loads, one after the other, find
/// all contexts, where a walk along the back-offs takes one load for each.
struct LmContextTable {
  const int32_t* shorter;  // [S][most - 1] states, the longest context first; 0: the empty one
  int32_t most;            // largest number of non-empty contexts of a state, order - 1

  /// Returns context i of a state, where the longest is context 0.
  RTFX_DEVICE int32_t context(int32_t state, int32_t i) const {
    if (i >= most) return 0;
    return i == 0 ? state
                  : load_constant(shorter + static_cast<int64_t>(state) * (most - 1) + i - 1);
  }
};

/// The arcs and weights of the contexts of a row's state, in memory that a block of threads shares:
/// the longest context first, the empty one last. Contexts in between that the state lacks have no
/// arcs.
struct LmContexts {
  static constexpr int32_t kEmpty = kMaxLmOrder - 1;

  int32_t begin[kMaxLmOrder], end[kMaxLmOrder];  // arcs
  float backoff[kMaxLmOrder];                    // weight
};

/// Finds all contexts of a state in parallel. Ends without a barrier.
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

/// Writes the bonuses of a row whose state has these contexts. It begins with a barrier, so threads
/// of the block may have just written the contexts and what `added` has. A thread loads kAtOnce
/// arcs before it stores the first. The code has few instructions, because each is fetched once for
/// a row. Ends with a barrier.
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
