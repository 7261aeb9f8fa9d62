// Contextual biasing within the phases of a search: the bonuses of all rows (row_bonus.h).
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"

namespace rtfx::fused {

/// All threads of a block.
struct WholeBlock {
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }
};

/// All threads of a block, or those of each warp.
struct Group {
  bool whole;
  __device__ int threads() const { return whole ? kThreads : kWarpSize; }
  __device__ int thread() const { return static_cast<int>(threadIdx.x) % threads(); }
  __device__ void sync() const {
    if (whole) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }
};

/// At the start of utterances or pieces, by the last blocks first: those have the least to do for
/// the frames. Not inlined, as it would take registers from the search.
__device__ __noinline__ inline void start_bias(const Search& s) {
  const Bias& bias = s.bias;
  const int last = gridDim.x - 1;
  for (int b = last - static_cast<int>(blockIdx.x); b < s.batch; b += last + 1) {
    if (s.lengths[b] <= 0) continue;  // in streams with what another left in `carried`
    const int root = bias.roots == nullptr ? 0 : bias.roots[b];
    const int state = root != 0 && bias.carried != nullptr ? root + bias.carried[b] : root;
    const bool* forbidden = bias.forbidden == nullptr
                                ? nullptr
                                : bias.forbidden + static_cast<size_t>(b) * s.model.blank;
    start_row(WholeBlock{}, bias.trees, root, state, forbidden, s.model.blank,
              bias.row(b, s.model.blank));
  }
}

/// Row b has found `token`. Not inlined, as it would take registers from the search.
__device__ __noinline__ inline void follow_token(const Bias& bias, int vocabulary, int b, int token,
                                                 bool whole) {
  const int root = bias.roots[b];
  if (root == 0) return;  // no tree: what it adds stays
  const RowBonus row = bias.row(b, vocabulary);
  const Group group{whole};
  const int state = change_state<8>(group, bias.trees, root, vocabulary, row,
                                    [&] { return row.state_after(token, root); });
  if (bias.carried != nullptr && group.thread() == 0) bias.carried[b] = state - root;
}

/// The rows that found a token, by the blocks from `busy` on, which have nothing else to do; if
/// there are none, by all: a block for each row, or a warp where they are many.
__device__ inline void advance_bias(const Search& s, const Rows& rows, int busy) {
  if (s.bias.roots == nullptr) return;
  const int grid = gridDim.x, first = busy < grid ? busy : 0, blocks = grid - first;
  const bool whole = rows.counts[kFound] <= blocks;
  int i = static_cast<int>(blockIdx.x) - first;
  if (i < 0) return;
  if (!whole) i += static_cast<int>(threadIdx.x) / kWarpSize * blocks;
  for (; i < rows.counts[kFound]; i += kWarps * blocks)
    follow_token(s.bias, s.model.blank, rows[i].found, rows[rows[i].found].label, whole);
}

}  // namespace rtfx::fused
