// What boosted phrases and forbidden tokens add to a row's next token. It changes with the row's
// tokens alone, so it is laid out for the whole vocabulary once after each, while other blocks
// update the prediction network, and the joint reads one number per logit.
#pragma once

#include "algorithms/decoders/greedy/fused_looping/tile.cuh"
#include "algorithms/shared/ngram_lm/advance_row.h"

namespace rtfx::fused {

/// All threads of a block.
struct WholeBlock {
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }
};

/// Of row b in `state` of the trees, by one block. Not inlined, as it would take registers from the
/// phases of the search.
__device__ __noinline__ inline void score_tokens(const Bias& bias, int vocabulary, int b,
                                                 int state) {
  const size_t first = static_cast<size_t>(b) * vocabulary;
  float* scores = bias.scores + first;
  if (bias.roots != nullptr) {
    rtfx::advance_row(WholeBlock{}, bias.trees, state, scores, bias.next + first);
  } else {
    for (int k = threadIdx.x; k < vocabulary; k += kThreads) scores[k] = 0;
  }
  if (bias.forbidden == nullptr) return;
  for (int k = threadIdx.x; k < vocabulary; k += kThreads)
    if (bias.forbidden[first + k]) scores[k] = kNever;
}

/// At the start of utterances or pieces.
__device__ inline void start_bias(const Search& s) {
  const Bias& bias = s.bias;
  if (bias.scores == nullptr) return;
  for (int b = blockIdx.x; b < s.batch; b += gridDim.x) {
    if (s.lengths[b] <= 0) continue;  // in streams with what another left in `carried`
    int state = bias.roots == nullptr ? 0 : bias.roots[b];
    if (state != 0 && bias.carried != nullptr) state += bias.carried[b];
    score_tokens(bias, s.model.blank, b, state);
  }
}

/// The rows that found a token, from the last block on: those have the least to do for the
/// prediction network.
__device__ inline void advance_bias(const Search& s, const Rows& rows) {
  const Bias& bias = s.bias;
  if (bias.roots == nullptr) return;
  for (int i = gridDim.x - 1 - blockIdx.x; i < rows.counts[kFound]; i += gridDim.x) {
    const int b = rows.found[i], root = bias.roots[b];
    if (root == 0) continue;  // no tree: its scores stay what they are
    int state = __ldcg(bias.next + static_cast<size_t>(b) * s.model.blank + rows.label[b]);
    if (state == 0) state = root;
    __syncthreads();  // all have read `next` before one writes to it
    if (threadIdx.x == 0 && bias.carried != nullptr) bias.carried[b] = state - root;
    score_tokens(bias, s.model.blank, b, state);
  }
}

}  // namespace rtfx::fused
