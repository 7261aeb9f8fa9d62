// The bonus of each possible next token of a row with a language model (greedy_fusion.h), stored
// for the whole vocabulary as that of contextual biasing is (row_bias_view.h), so that the joint
// phase loads one number for each token. When a row has a new token, a block of threads writes the
// scores of its new state. The shortest context has all tokens, and each longer one overwrites
// those that it has. Beside the bonus stands the state after each token: finding the new state
// takes one load instead of a search in the arcs, and its contexts two more (LmContextTable). No
// LibTorch header is included here.
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

/// The model's contexts that are not empty, at most.
constexpr int kMaxContexts = kMaxLmOrder - 1;

/// The contexts of a state: its own tokens, those without the first, and so on. A table has those
/// behind the first for each state, so that they are found by two loads that follow each other,
/// where a walk along the back-offs takes one for each context.
struct LmContextTable {
  const int32_t* shorter;  // [S][most - 1] states, the longest context first; 0: the empty one
  int32_t most;            // contexts of a state that are not empty, at most: order - 1

  /// Context i of a state.
  RTFX_DEVICE int32_t context(int32_t state, int32_t i) const {
    return i == 0 ? state
                  : load_constant(shorter + static_cast<int64_t>(state) * (most - 1) + i - 1);
  }
};

/// The arcs and weights of the contexts of a row's state, in memory that a block of threads shares.
/// Context `most` and those behind it are not there.
struct LmContexts {
  int32_t begin[kMaxContexts], end[kMaxContexts];  // arcs
  float backoff[kMaxContexts];                     // weight
};

/// One context of a state on its way to LmContexts: a thread has one. Each member waits for what
/// the one before it loads, so that other work can stand between them.
class LmContextLoad {
 public:
  RTFX_DEVICE void set_state(int32_t state) { state_ = state; }
  RTFX_DEVICE int32_t state() const { return state_; }
  RTFX_DEVICE void load_context(const LmContextTable& table, int32_t i) {
    context_ = i < table.most ? table.context(state_, i) : 0;
  }
  RTFX_DEVICE void load_arcs(const NgramView& lm) {
    if (context_ == 0) return;
    const int32_t* const arcs = lm.state_arcs + 2 * static_cast<int64_t>(context_);
    begin_ = load_constant(arcs);
    end_ = load_constant(arcs + 1);
    backoff_ = load_constant(lm.backoff_weight + context_);
  }
  RTFX_DEVICE void store(LmContexts& contexts, int32_t i) const {
    contexts.begin[i] = begin_;
    contexts.end[i] = end_;
    contexts.backoff[i] = backoff_;
  }

 private:
  int32_t state_ = 0, context_ = 0, begin_ = 0, end_ = 0;
  float backoff_ = 0;
};

/// Finds the contexts of a state, all at once.
template <ThreadBlock Block>
RTFX_DEVICE void find_contexts(const Block& block, const NgramView& lm, const LmContextTable& table,
                               int32_t state, LmContexts& contexts) {
  for (int32_t i = block.thread(); i < kMaxContexts; i += block.threads()) {
    LmContextLoad load;
    load.set_state(state);
    load.load_context(table, i);
    load.load_arcs(lm);
    load.store(contexts, i);
  }
}

/// Writes the bonuses of a row whose state has these contexts, which threads of the block may have
/// written without a barrier since, like what `added` has. kAtOnce: tokens of a thread that are
/// loaded before the first is stored. Ends without a barrier.
template <int kAtOnce = 1, ThreadBlock Block>
RTFX_DEVICE void write_bonuses(const Block& block, const NgramView& lm, const LmContexts& contexts,
                               const RowLmView& row) {
  struct Arc {
    int32_t label, to;
    float weight;
  };
  const auto load_arc = [&](int32_t arc) {
    return Arc{load_constant(lm.arc_label + arc), load_constant(lm.arc_to + arc),
               load_constant(lm.arc_weight + arc)};
  };
  // All loads start before the first result is needed: those of the empty context, whose arcs are
  // of all tokens, and this thread's first arc of each other context.
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
  block.sync();  // the contexts and `added` are there, and all threads have read the last bonuses
  Arc first[kMaxContexts];
  float backoffs[kMaxContexts], backoff = 0;
  RTFX_UNROLL
  for (int i = 0; i < kMaxContexts; ++i) {
    backoffs[i] = backoff;
    backoff += contexts.backoff[i];
    first[i] = {};
    const int32_t arc = contexts.begin[i] + block.thread();
    if (arc < contexts.end[i]) first[i] = load_arc(arc);
  }

  for (int32_t from = block.thread(); from < lm.vocabulary; from += kAtOnce * block.threads()) {
    if (from != block.thread()) load_tokens(from);
    RTFX_UNROLL
    for (int i = 0; i < kAtOnce; ++i)
      if (const int32_t k = from + i * block.threads(); k < lm.vocabulary)
        row.set(k, backoff + weight[i], to[i]);
  }
  RTFX_UNROLL
  for (int i = kMaxContexts - 1; i >= 0; --i) {
    const int32_t end = contexts.end[i];
    if (contexts.begin[i] == end) continue;
    block.sync();  // the shorter contexts are written
    Arc here = first[i];
    for (int32_t arc = contexts.begin[i] + block.thread(); arc < end; arc += block.threads()) {
      const Arc now = here;
      if (arc + block.threads() < end) here = load_arc(arc + block.threads());
      row.set(now.label, backoffs[i] + now.weight, now.to);
    }
  }
}

}  // namespace rtfx::fused
