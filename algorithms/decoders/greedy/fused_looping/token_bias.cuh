// What boosted phrases and forbidden tokens add to the tokens of all rows (row_bonus.h), within the
// phases of a search.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"

namespace rtfx::fused {

/// All threads of a block.
struct WholeBlock {
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }
};

/// The threads of one warp.
struct Warp {
  __device__ int thread() const { return static_cast<int>(threadIdx.x) % kWarpSize; }
  __device__ int threads() const { return kWarpSize; }
  __device__ void sync() const { __syncwarp(); }
};

/// At the start of utterances or pieces. Not inlined, as it would take registers from the search.
__device__ __noinline__ inline void start_bias(const Search& s) {
  const Bias& bias = s.bias;
  for (int b = blockIdx.x; b < s.batch; b += gridDim.x) {
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

/// Row b has found `token`; by one warp.
__device__ __noinline__ inline void follow_token(const Bias& bias, int vocabulary, int b,
                                                 int token) {
  const RowBonus row = bias.row(b, vocabulary);
  const int root = bias.roots[b], state = row.state_after(token, root);
  if (root == 0) return;  // no tree: what it adds stays
  const Warp warp;
  warp.sync();  // all have read before one writes
  if (bias.carried != nullptr && warp.thread() == 0) bias.carried[b] = state - root;
  enter_state(warp, bias.trees, root, state, row);
}

/// The rows that found a token, each by a warp of the blocks from `busy` on, which have nothing
/// else to do; if there are none, of all.
__device__ inline void advance_bias(const Search& s, const Rows& rows, int busy) {
  if (s.bias.roots == nullptr) return;
  const int grid = gridDim.x, first = busy < grid ? busy : 0, blocks = grid - first;
  const int block = static_cast<int>(blockIdx.x) - first, warp = threadIdx.x / kWarpSize;
  if (block < 0) return;
  for (int i = block + warp * blocks; i < rows.counts[kFound]; i += kWarps * blocks)
    follow_token(s.bias, s.model.blank, rows.found[i], rows.label[rows.found[i]]);
}

}  // namespace rtfx::fused
