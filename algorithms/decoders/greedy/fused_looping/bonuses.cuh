// Updates the bonuses that contextual biasing and a language model add to each token
// (row_bias_view.h, row_lm_view.h), for the rows that found a token. The joint phase is the next to
// read them. In the persistent kernel, two more warps of each block do this while the other warps
// compute the prediction network. This is possible because the bonuses depend on the tokens alone.
// In the kernels of a graph, blocks without other work do it.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"
#include "algorithms/gpu/cuda_block.cuh"

namespace rtfx::fused {

constexpr int32_t kStartOfSentence = 1;  // NgramLm::initial_states()

/// Further threads of a block of the persistent kernel. A multiprocessor gives registers to four
/// warps at a time, so that these two warps take none from the kWarps others.
constexpr int kBonusThreads = 2 * kWarpSize;
static_assert((kThreads + kBonusThreads) % (4 * kWarpSize) == 0);

/// Completes when the searching threads have listed the rows that found a token.
using RowsListed = NamedBarrier<2, kThreads + kBonusThreads>;
/// Completes when the bonuses of these rows are written.
using BonusesWritten = NamedBarrier<3, kThreads + kBonusThreads>;

/// The bonus threads of a block: a ThreadBlock.
struct BonusBlock {
  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x) - kThreads; }
  __device__ int32_t threads() const { return kBonusThreads; }
  __device__ void sync() const { NamedBarrier<1, kBonusThreads>::sync(); }
};
static_assert(ThreadBlock<BonusBlock>);

/// The number of arcs or tokens that a thread loads before it stores the first. It is large enough
/// for few rounds over the vocabulary.
template <class Block>
constexpr int kAtOnce = 4;
template <>
inline constexpr int kAtOnce<BonusBlock> = 8;

/// Brings row b into a state of the language model. Not inlined, as it would take registers from
/// the search.
template <class Block>
__device__ __noinline__ void follow_in_lm(const Search& s, int b, int32_t state) {
  __shared__ LmContexts contexts;
  const Block block{};
  const NgramView model = s.lm.model;  // a copy: stores could change what a reference leads to
  find_contexts(block, model, s.lm.contexts, state, contexts);
  write_bonuses<kAtOnce<Block>>(block, model, contexts, s.lm_row(b));
  if (s.lm.carried != nullptr && block.thread() == 0) s.lm.carried[b] = state;
}

/// Updates the bonuses of contextual biasing of row b, which has found `token`. Not inlined, as it
/// would take registers from the search.
template <class Block>
__device__ __noinline__ void follow_in_trees(const BiasView& bias, int vocabulary, int b,
                                             int token) {
  const int root = bias.roots == nullptr ? 0 : bias.roots[b];
  if (root == 0) return;  // The row has no phrase tree, so its bonuses do not change.
  const RowBiasView row = bias.row(b, vocabulary);
  const Block block{};
  const int state = change_state<kAtOnce<Block>>(block, bias.trees, root, vocabulary, row,
                                                 [&] { return row.state_after(token, root); });
  if (bias.carried != nullptr && block.thread() == 0) bias.carried[b] = state - root;
}

/// Writes the bonuses at the start of utterances or pieces. The first rows go to the last blocks,
/// which have the least to do for the frames. Not inlined, as it would take registers from the
/// search.
template <class Block>
__device__ __noinline__ void start_bonuses(const Search& s) {
  const BiasView& bias = s.bias;
  const Block block{};
  const int last = gridDim.x - 1;
  for (int b = last - static_cast<int>(blockIdx.x); b < s.batch; b += last + 1) {
    // A row without frames is skipped. In streams, its `carried` entry may belong to another
    // stream.
    if (s.lengths[b] <= 0) continue;
    if (bias.any()) {
      const int root = bias.roots == nullptr ? 0 : bias.roots[b];
      const int state = root != 0 && bias.carried != nullptr ? root + bias.carried[b] : root;
      const bool* forbidden = bias.forbidden == nullptr
                                  ? nullptr
                                  : bias.forbidden + static_cast<size_t>(b) * s.model.blank;
      start_row(block, bias.trees, root, state, forbidden, s.model.blank,
                bias.row(b, s.model.blank));
    }
    if (s.lm.any())
      follow_in_lm<Block>(s, b, s.lm.carried == nullptr ? kStartOfSentence : s.lm.carried[b]);
  }
}

/// The share of a block in the rows that found a token: every `step`-th row from `first` on.
struct BonusShare {
  int first, step;

  /// Divides the rows among all blocks. The first row goes to the last block, which has the least
  /// to do for the LSTM layers.
  __device__ static BonusShare of_all() {
    const int blocks = static_cast<int>(gridDim.x);
    return {blocks - 1 - static_cast<int>(blockIdx.x), blocks};
  }
  /// Divides the rows among the blocks from `busy` on, which have nothing else to do. If they are
  /// too few for a row each, all blocks share the rows.
  __device__ static BonusShare of_free(const Rows& rows, int busy) {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const int found = rows.counts[kFound], free = blocks - busy;
    if (found > free) return {block, blocks};
    return {block < busy ? found : block - busy, free};
  }
};

/// Updates the bonuses of the rows of a share. Not inlined, as it would take registers from the
/// search. `rows` is a copy: a reference would hide from the compiler that the rows of the
/// persistent kernel are in shared memory, in all phases of the search.
template <class Block>
__device__ __noinline__ void advance_bonuses(const Search& s, Rows rows, BonusShare share) {
  if (s.bias.roots == nullptr && !s.lm.any()) return;
  for (int i = share.first; i < rows.counts[kFound]; i += share.step) {
    const int b = rows[i].found, token = rows[b].label;
    follow_in_trees<Block>(s.bias, s.model.blank, b, token);
    if (s.lm.any()) follow_in_lm<Block>(s, b, s.lm_row(b).state_after(token));
  }
}

// -------------------------------------------------------------------------------------------------
// The persistent kernel. A grid barrier lies between the joint phase's reads of a row's bonuses and
// the next writes, and another between these and the next reads.

/// Does all work of the bonus threads in a search. They meet the searching threads at
/// BonusesWritten after the start. For each hand_over_rows() they meet them at RowsListed and then
/// at BonusesWritten. `rows` is a copy for the reason given at advance_bonuses().
__device__ __noinline__ inline void follow_bonuses(const Search& s, Rows rows) {
  start_bonuses<BonusBlock>(s);
  BonusesWritten::arrive();
  for (bool more = true; more;) {
    RowsListed::sync();
    if (rows.counts[kFound] == 0) return;
    more = rows.counts[kActive] > 0;  // read now: the search changes it after BonusesWritten
    advance_bonuses<BonusBlock>(s, rows, BonusShare::of_all());
    BonusesWritten::arrive();
  }
}

/// The searching threads call this after they have listed the rows. It lets the bonus threads
/// update the rows that found a token. If no row found one and no row is active, it lets them
/// return.
__device__ inline void hand_over_rows(const Rows& rows) {
  if (rows.counts[kFound] > 0 || rows.counts[kActive] == 0) RowsListed::arrive();
}

}  // namespace rtfx::fused
