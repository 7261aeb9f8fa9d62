// The emitting arcs of a frame's tokens, spread evenly over a block of threads. No LibTorch here:
// the kernel's source includes it.
#pragma once

#include <cstdint>
#include <limits>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"

namespace rtfx {

/// Takes tokens in tiles, one for each thread, and puts the arcs of a tile one after the other; so
/// states with thousands of arcs and states with one make the same work for all threads, and
/// neighbouring threads read neighbouring arcs. Merge-path and scan-based expansion of frontiers:
/// Merrill, Garland, Grimshaw, "Scalable GPU Graph Traversal", 2012.
/// Block: as in token_passing.h.
template <class Block>
class EmittingArcs {
 public:
  /// Arcs that a thread holds at a time, and the costs of the paths by them: +infinity where there
  /// is no arc.
  struct Held {
    float cost[Block::kHeld];
    int32_t next[Block::kHeld], number[Block::kHeld];
  };

  RTFX_DEVICE EmittingArcs(Block& block, const PassingGraph& graph,
                           PassingTile<Block::kMostThreads>& tile)
      : block_(block), graph_(graph), tile_(tile) {}

  /// From here on: arcs of those of `tokens` that cost less than `cutoff`. `lp`: log-probabilities
  /// of the frame; without them there are no arcs.
  RTFX_DEVICE void begin_frame(const PassingTokens& tokens, float cutoff, const float* lp,
                               const float* word_costs) {
    tokens_ = tokens;
    if (lp == nullptr) tokens_.count = 0;
    cutoff_ = cutoff;
    lp_ = lp;
    word_costs_ = word_costs;
    loaded_ = -1;
  }

  /// Fills `held` with arcs of this thread and calls visit() until there are none; returns how
  /// often, which is the same for all threads. After one visit `held` still has all of the frame.
  template <class Visit>
  RTFX_DEVICE int32_t visit_all(Held& held, const Visit& visit) {
    int32_t visits = 0;
    for (int32_t first = 0; first < tokens_.count; first += block_.threads()) {
      if (first != loaded_) load(first);
      for (int32_t place = 0; place < arcs_; place += Block::kHeld * block_.threads()) {
        gather(place, held);
        visit();
        ++visits;
      }
    }
    return visits;
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr int32_t kTogether = 4;  // arcs for which a thread waits at once
  static_assert(Block::kHeld % kTogether == 0);

  /// The tile of the tokens from `first` on.
  RTFX_DEVICE void load(int32_t first) {
    const int32_t i = first + block_.thread();
    int32_t arc = 0, arcs = 0;
    float cost = 0;
    if (i < tokens_.count) {
      cost = tokens_.cost[i];
      const int32_t state = tokens_.state[i];
      if (cost < cutoff_) {
        arc = graph_.states[state].emitting_begin;
        arcs = graph_.states[state + 1].emitting_begin - arc;
      }
    }
    // A barrier: no thread reads the last tile any more.
    const int32_t begin = block_.exclusive_sum(arcs, arcs_);
    tile_.begin[block_.thread()] = begin;
    tile_.number[block_.thread()] = arc - begin;
    tile_.cost[block_.thread()] = cost;
    tokens_in_tile_ = tokens_.count - first;
    if (tokens_in_tile_ > block_.threads()) tokens_in_tile_ = block_.threads();
    widest_step_ = 1;
    while (2 * widest_step_ < tokens_in_tile_) widest_step_ *= 2;
    loaded_ = first;
    block_.sync();
  }

  /// This thread's arcs among the tile's from `place` on: every threads()-th.
  RTFX_DEVICE void gather(int32_t place, Held& held) const {
    RTFX_UNROLL
    for (int32_t h = 0; h < Block::kHeld; h += kTogether) {
      if (place + h * block_.threads() < arcs_) {
        gather_together(place + h * block_.threads() + block_.thread(), held, h);
        continue;
      }
      RTFX_UNROLL
      for (int32_t k = 0; k < kTogether; ++k) {
        held.cost[h + k] = kInfinity;
        held.next[h + k] = held.number[h + k] = 0;
      }
    }
  }

  /// Each step is done for kTogether arcs before the next, so that their loads are in flight
  /// together.
  RTFX_DEVICE void gather_together(int32_t place, Held& held, int32_t h) const {
    int32_t at[kTogether], token[kTogether];
    RTFX_UNROLL
    for (int32_t k = 0; k < kTogether; ++k) {
      at[k] = place + k * block_.threads();
      if (at[k] >= arcs_) at[k] = arcs_ - 1;
      token[k] = 0;
    }
    // The last token whose arcs begin at the place or before it; tokens without arcs, which begin
    // where the next one does, are not the last.
    for (int32_t step = widest_step_; step > 0; step /= 2) {
      RTFX_UNROLL
      for (int32_t k = 0; k < kTogether; ++k) {
        const int32_t next = token[k] + step;
        if (next < tokens_in_tile_ && tile_.begin[next] <= at[k]) token[k] = next;
      }
    }
    GraphArc arcs[kTogether];
    RTFX_UNROLL
    for (int32_t k = 0; k < kTogether; ++k) {
      held.number[h + k] = tile_.number[token[k]] + at[k];
      arcs[k] = graph_.arcs[held.number[h + k]];
    }
    RTFX_UNROLL
    for (int32_t k = 0; k < kTogether; ++k) {
      const float cost =
          (tile_.cost[token[k]] + cost_with(arcs[k], word_costs_)) - lp_[arcs[k].column];
      held.cost[h + k] = place + k * block_.threads() < arcs_ ? cost : kInfinity;
      held.next[h + k] = arcs[k].next;
    }
  }

  Block& block_;
  const PassingGraph& graph_;
  PassingTile<Block::kMostThreads>& tile_;
  PassingTokens tokens_{};
  float cutoff_ = 0;
  const float* lp_ = nullptr;
  const float* word_costs_ = nullptr;
  int32_t loaded_ = -1;  // first token of the tile that is in memory; -1: none
  int32_t tokens_in_tile_ = 0, arcs_ = 0, widest_step_ = 0;
};

}  // namespace rtfx
