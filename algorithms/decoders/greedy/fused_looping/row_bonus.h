// What a row of a batch adds to its next token: what the root of its phrase tree has for every
// token, laid out once, and beside that the few tokens that the state it has come to treats
// otherwise. A step so writes a handful of numbers. By a block of threads; no LibTorch here.
#pragma once

#include <limits>

#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/ngram_lm/advance_row.h"
#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx::fused {

constexpr float kNever = -std::numeric_limits<float>::infinity();   // of a forbidden token
constexpr float kNotOwn = std::numeric_limits<float>::quiet_NaN();  // RowBonus::own

/// *p, which other blocks of this kernel may have written: past the L1 cache.
template <class T>
RTFX_DEVICE T load_written(const T* p) {
#ifdef __CUDA_ARCH__
  return __ldcg(p);
#else
  return *p;
#endif
}

/// What is added to one token, as loaded: so that nothing waits for the loads but value().
struct TokenBonus {
  float of_root = 0, own = kNotOwn, backoff = 0;

  RTFX_DEVICE float value() const {
    if (of_root == kNever) return kNever;
    return own == own ? own : backoff + of_root;
  }
};

/// One row's.
struct RowBonus {
  float* of_root;  // [V]; kNever for a forbidden token
  int32_t* to;     // [V] state after the token, from the root; 0: the root
  // Of the row's state:
  float* own;         // [V]; kNotOwn for a token that it treats as the root does
  int32_t* own_to;    // [V], where `own` counts
  int32_t* own_arcs;  // [2] first and end of the arcs that `own` is of
  float* backoff;     // [1] what of_root changes by

  RTFX_DEVICE TokenBonus load(int32_t token) const {
    return {load_written(of_root + token), load_written(own + token), load_written(backoff)};
  }
  /// The state of the trees after `token`.
  RTFX_DEVICE int32_t state_after(int32_t token, int32_t root) const {
    const int32_t from_root = load_written(to + token), from_own = load_written(own_to + token);
    const float score = load_written(own + token);
    const int32_t state = score == score ? from_own : from_root;
    return state == 0 ? root : state;
  }
};

/// The row is in `state` now, of the tree with this root, to which every state of a phrase tree
/// backs off at once. All threads of a block have read what they need of the row before.
template <class Block>
RTFX_DEVICE void enter_state(const Block& block, const NgramView& trees, int32_t root,
                             int32_t state, const RowBonus& row) {
  // Every load is under way before the first that is waited for.
  const int32_t old_begin = load_written(row.own_arcs), old_end = load_written(row.own_arcs + 1);
  const int32_t* const arcs = trees.state_arcs + 2 * static_cast<int64_t>(state);
  const bool at_root = state == root;
  const int32_t begin = at_root ? 0 : load_constant(arcs);
  const int32_t end = at_root ? 0 : load_constant(arcs + 1);
  const float backoff = at_root ? 0 : load_constant(trees.backoff_weight + state);
  const int32_t first = begin + block.thread();
  int32_t token = 0, to = 0;
  float score = 0;
  const auto load = [&](int32_t arc) {
    token = load_constant(trees.arc_label + arc);
    score = load_constant(trees.arc_weight + arc);
    to = load_constant(trees.arc_to + arc);
  };
  if (first < end) load(first);
  for (int32_t arc = old_begin + block.thread(); arc < old_end; arc += block.threads())
    row.own[load_constant(trees.arc_label + arc)] = kNotOwn;
  block.sync();
  if (block.thread() == 0) {
    row.own_arcs[0] = begin;
    row.own_arcs[1] = end;
    *row.backoff = backoff;
  }
  for (int32_t arc = first; arc < end; arc += block.threads()) {
    if (arc != first) load(arc);
    row.own[token] = score;
    row.own_to[token] = to;
  }
}

/// The row begins in `state` of the tree with this root; root 0: it has no tree. forbidden: [V] or
/// nullptr. Ends with a barrier.
template <class Block>
RTFX_DEVICE void start_row(const Block& block, const NgramView& trees, int32_t root, int32_t state,
                           const bool* forbidden, int32_t vocabulary, const RowBonus& row) {
  if (root != 0) {
    advance_row(block, trees, root, row.of_root, row.to);
  } else {
    for (int32_t k = block.thread(); k < vocabulary; k += block.threads()) row.of_root[k] = 0;
    block.sync();
  }
  for (int32_t k = block.thread(); forbidden != nullptr && k < vocabulary; k += block.threads())
    if (forbidden[k]) row.of_root[k] = kNever;
  for (int32_t k = block.thread(); k < vocabulary; k += block.threads()) row.own[k] = kNotOwn;
  if (block.thread() == 0) row.own_arcs[0] = row.own_arcs[1] = 0;
  block.sync();
  enter_state(block, trees, root, state, row);
  block.sync();
}

}  // namespace rtfx::fused
