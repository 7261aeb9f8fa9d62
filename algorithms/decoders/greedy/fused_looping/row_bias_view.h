// The bonus that contextual biasing adds to each possible next token of a row. It is stored for the
// whole vocabulary, so that a search loads one number for each token. The bonuses of the root of
// the row's phrase tree are the base, and the few tokens that the row's present state treats
// otherwise are written over them. A block of threads does this. No LibTorch header is included
// here.
#pragma once

#include <limits>

#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx::fused {

constexpr float kNever = -std::numeric_limits<float>::infinity();  // bonus of a forbidden token
constexpr int32_t kNotOwn = -1;                                    // see RowBiasView::own_to

/// Loads *p past the L1 cache, because other blocks of this kernel may have written it.
template <class T>
RTFX_DEVICE T load_written(const T* p) {
#ifdef __CUDA_ARCH__
  return __ldcg(p);
#else
  return *p;
#endif
}

/// The bias of one row.
struct RowBiasView {
  float* added;       // [V] bonus of a token in the row's state; kNever if it is forbidden
  float* root_added;  // [V] bonus of a token in the root; kNever if it is forbidden
  int32_t* to;        // [V] state after the token, from the root; 0: the root
  // own_to and own_arcs belong to the row's present state.
  int32_t* own_to;    // [V] state after the token; kNotOwn if `to` has it
  int32_t* own_arcs;  // [2] first and end of the arcs in own_to; -1 in the root
  bool masked;        // tokens may be forbidden

  /// Returns the state after `token`. `root` is the root of the row's tree.
  RTFX_DEVICE int32_t state_after(int32_t token, int32_t root) const {
    const int32_t from_root = load_written(to + token), from_own = load_written(own_to + token);
    const int32_t state = from_own == kNotOwn ? from_root : from_own;
    return state == 0 ? root : state;
  }
};

/// Moves the row to the state that find_state() returns, and returns it too. `root` is the root of
/// the row's tree, and every other state of a phrase tree backs off directly to its root. A thread
/// loads kAtOnce tokens before it stores the first.
template <int kAtOnce = 1, ThreadBlock Block, class FindState>
RTFX_DEVICE int32_t change_state(const Block& block, const NgramView& trees, int32_t root,
                                 int32_t vocabulary, const RowBiasView& row,
                                 const FindState& find_state) {
  // All loads that can start do so before the first result is needed.
  const int32_t old_begin = load_written(row.own_arcs), old_end = load_written(row.own_arcs + 1);
  float root_added[kAtOnce] = {};
  const auto load_root_added = [&](int32_t from) {
    for (int i = 0; i < kAtOnce; ++i)
      if (const int32_t k = from + i * block.threads(); k < vocabulary)
        root_added[i] = load_written(row.root_added + k);
  };
  load_root_added(block.thread());
  const int32_t state = find_state();
  const bool at_root = state == root;
  if (at_root && old_begin < 0) return state;
  const int32_t* const arcs = trees.state_arcs + 2 * static_cast<int64_t>(state);
  const int32_t begin = at_root ? -1 : load_constant(arcs);
  const int32_t end = at_root ? -1 : load_constant(arcs + 1);
  const float backoff = at_root ? 0 : load_constant(trees.backoff_weight + state);
  const int32_t first = begin + block.thread();
  int32_t token = 0, to = 0;
  float score = 0;
  const auto load_arc = [&](int32_t arc) {
    token = load_constant(trees.arc_label + arc);
    score = load_constant(trees.arc_weight + arc);
    to = load_constant(trees.arc_to + arc);
  };
  if (first < end) load_arc(first);
  const int32_t old_first = old_begin + block.thread();
  const int32_t old_token = old_first < old_end ? load_constant(trees.arc_label + old_first) : 0;
  block.sync();  // all threads have read what is overwritten now
  for (int32_t from = block.thread(); from < vocabulary; from += kAtOnce * block.threads()) {
    if (from != block.thread()) load_root_added(from);
    for (int i = 0; i < kAtOnce; ++i)
      if (const int32_t k = from + i * block.threads(); k < vocabulary)
        row.added[k] = backoff + root_added[i];
  }
  for (int32_t arc = old_first; arc < old_end; arc += block.threads())
    row.own_to[arc == old_first ? old_token : load_constant(trees.arc_label + arc)] = kNotOwn;
  block.sync();
  if (block.thread() == 0) {
    row.own_arcs[0] = begin;
    row.own_arcs[1] = end;
  }
  for (int32_t arc = first; arc < end; arc += block.threads()) {
    if (arc != first) load_arc(arc);
    row.own_to[token] = to;
    if (!row.masked || load_written(row.root_added + token) != kNever) row.added[token] = score;
  }
  return state;
}

/// Starts the row in `state` of the tree with this root. A root of 0 means that it has no tree.
/// `forbidden` is [V] or nullptr. A root backs off to state 0, where every token has the bonus 0
/// and leads back to state 0 (DeviceBias). So only the arcs of the root are looked up. Ends with a
/// barrier.
template <ThreadBlock Block>
RTFX_DEVICE void start_row(const Block& block, const NgramView& trees, int32_t root, int32_t state,
                           const bool* forbidden, int32_t vocabulary, const RowBiasView& row) {
  const int32_t* const arcs = trees.state_arcs + 2 * static_cast<int64_t>(root);
  const int32_t begin = root != 0 ? load_constant(arcs) : 0;
  const int32_t end = root != 0 ? load_constant(arcs + 1) : 0;
  const float backoff = root != 0 ? load_constant(trees.backoff_weight + root) : 0;
  const auto set = [&](int32_t token, float score, int32_t to) {
    const bool never = forbidden != nullptr && forbidden[token];
    row.root_added[token] = row.added[token] = never ? kNever : score;
    row.to[token] = to;
  };
  for (int32_t k = block.thread(); k < vocabulary; k += block.threads()) {
    set(k, backoff, 0);
    row.own_to[k] = kNotOwn;
  }
  if (block.thread() == 0) row.own_arcs[0] = row.own_arcs[1] = -1;
  block.sync();
  for (int32_t arc = begin + block.thread(); arc < end; arc += block.threads()) {
    set(load_constant(trees.arc_label + arc), load_constant(trees.arc_weight + arc),
        load_constant(trees.arc_to + arc));
  }
  block.sync();
  if (state == root) return;
  change_state(block, trees, root, vocabulary, row, [state] { return state; });
  block.sync();
}

}  // namespace rtfx::fused
