// What a row of a batch adds to its next token: what the root of its phrase tree has for every
// token, laid out once, and beside that the few tokens that the state it has come to treats
// otherwise. A step so writes a handful of numbers. By a block of threads; no LibTorch here.
#pragma once

#include <limits>

#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/ngram_lm/advance_row.h"
#include "algorithms/shared/ngram_lm/view.h"

#ifndef __CUDA_ARCH__
#include <atomic>
#endif

namespace rtfx::fused {

constexpr float kNever = -std::numeric_limits<float>::infinity();  // of a forbidden token
constexpr int kMarks = 32;                                         // tokens in a word of marks

/// *p, which other blocks of this kernel may have written: past the L1 cache.
template <class T>
RTFX_DEVICE T load_written(const T* p) {
#ifdef __CUDA_ARCH__
  return __ldcg(p);
#else
  return *p;
#endif
}

RTFX_DEVICE inline void set_mark(uint32_t* marks, int32_t token) {
  const uint32_t bit = 1u << (token % kMarks);
#ifdef __CUDA_ARCH__
  atomicOr(marks + token / kMarks, bit);
#else
  std::atomic_ref<uint32_t>(marks[token / kMarks]).fetch_or(bit);
#endif
}

/// One row's.
struct RowBonus {
  float* of_root;  // [V]; kNever for a forbidden token
  int32_t* to;     // [V] state after the token, from the root; 0: the root
  // Of the row's state, unless that is the root:
  uint32_t* marks;  // [ceil(V / 32)] the tokens that `own` counts for
  float* own;       // [V]
  int32_t* own_to;  // [V]
  float* backoff;   // [1] what of_root changes by

  RTFX_DEVICE bool marked(int32_t token) const {
    return load_written(marks + token / kMarks) >> (token % kMarks) & 1;
  }
  /// What is added to `token`.
  RTFX_DEVICE float operator()(int32_t token) const {
    const float shared = load_written(backoff) + load_written(of_root + token);
    return marked(token) ? load_written(own + token) : shared;
  }
  /// The state of the trees after `token`.
  RTFX_DEVICE int32_t state_after(int32_t token, int32_t root) const {
    const int32_t from_root = load_written(to + token);
    const int32_t state = marked(token) ? load_written(own_to + token) : from_root;
    return state == 0 ? root : state;
  }
};

/// The row is in `state` now, of the tree with this root, to which every state of a phrase tree
/// backs off at once. All threads of a block have read what they need of the row before.
template <class Block>
RTFX_DEVICE void enter_state(const Block& block, const NgramView& trees, int32_t root,
                             int32_t state, int32_t vocabulary, const RowBonus& row) {
  const bool at_root = state == root;
  int32_t begin = 0, end = 0;
  float backoff = 0;
  if (!at_root) {
    begin = trees.state_arcs[2 * static_cast<int64_t>(state)];
    end = trees.state_arcs[2 * static_cast<int64_t>(state) + 1];
    backoff = trees.backoff_weight[state];
  }
  for (int32_t word = block.thread(); word * kMarks < vocabulary; word += block.threads())
    row.marks[word] = 0;
  if (block.thread() == 0) *row.backoff = backoff;
  block.sync();
  for (int32_t arc = begin + block.thread(); arc < end; arc += block.threads()) {
    const int32_t token = load_constant(trees.arc_label + arc);
    if (load_written(row.of_root + token) == kNever) continue;
    row.own[token] = load_constant(trees.arc_weight + arc);
    row.own_to[token] = load_constant(trees.arc_to + arc);
    set_mark(row.marks, token);
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
  block.sync();
  enter_state(block, trees, root, state, vocabulary, row);
  block.sync();
}

}  // namespace rtfx::fused
