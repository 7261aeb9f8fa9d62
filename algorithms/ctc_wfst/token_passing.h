// The search of algorithms/wfst/search.h by a block of threads: what each thread does, frame by
// frame. Written once for the threads of a GPU (kernels.cu) and for those of a CPU (the tests,
// which so check all of it but the hardware). No LibTorch here: the kernel's source includes it.
//
// Which path is the best into a state is decided by an atomic minimum over keys: the cost in the
// upper half, the arc's number in the lower. So no result depends on which thread comes first; only
// the order of the tokens in memory does.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "algorithms/ctc_wfst/passing.h"

namespace rtfx {

/// A thread's part in its block's work. All threads of a block call the same functions in the same
/// order. Block:
///   thread(), threads()        this thread's number and how many there are
///   kGroup                     threads that share a token's emitting arcs
///   sync()                     waits for all threads; what they wrote is seen after it
///   least_of_group(uint32_t)   of the values of a group's threads or, if the block cannot tell,
///                              this thread's own
///   static minimum(p, v), add(p, v)   atomic; return the value before
///   static load(p)             of a key that others may be changing
template <class Block>
class TokenPassing {
 public:
  RTFX_DEVICE TokenPassing(Block& block, const PassingGraph& graph, const PassingLane& lane,
                           const PassingBatch& batch, PassingShared& shared)
      : block_(block), graph_(graph), lane_(lane), batch_(batch), shared_(shared) {}

  /// Rows, as long as there are any.
  RTFX_DEVICE void run() {
    for (;;) {
      if (block_.thread() == 0) shared_.row = Block::add(batch_.next_row, 1);
      block_.sync();
      const int32_t n = shared_.row;
      block_.sync();
      if (n >= batch_.row_count) return;
      search(n, batch_.rows[n]);
    }
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kLeastPositive = std::numeric_limits<float>::min();

  RTFX_DEVICE void search(int64_t n, const PassingRow& row) {
    word_costs_ = row.word_costs;
    lp_ = nullptr;
    PassingTokens last = lane_.tokens[0], now = lane_.tokens[1];
    bool room = begin(row, last, now);
    for (int64_t t = 0; room && now.count > 0 && t < row.frames; ++t) {
      const PassingTokens swapped = last;
      last = now;
      now = swapped;
      const float cut = expand(last, now, row.lp + t * graph_.columns);
      room = finish_frame(last, now, cut);
    }
    finish(n, row, now, room);
  }

  /// The tokens before the row's first frame: the start's, or those that the piece before left.
  RTFX_DEVICE bool begin(const PassingRow& row, const PassingTokens& last, PassingTokens& now) {
    if (block_.thread() == 0) {
      shared_.offset = row.offset;
      shared_.count = 0;
      if (row.tokens < 0) reach(now, graph_.start, key_of(0.0f, -1));
    }
    if (row.tokens < 0) return finish_frame(last, now, batch_.beam);
    now.count = row.tokens;
    now.first_trace = kPieceBefore;
    const int64_t kept = row.slot * batch_.slots.capacity;
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      now.state[i] = batch_.slots.state[kept + i];
      now.cost[i] = batch_.slots.cost[kept + i];
      now.slot[now.state[i]] = i;
    }
    block_.sync();
    return true;
  }

  /// From the tokens of one frame to those of the next, by emitting arcs. Returns best + beam.
  RTFX_DEVICE float expand(const PassingTokens& last, const PassingTokens& now, const float* lp) {
    if (block_.thread() == 0) shared_.count = 0;
    lp_ = lp;
    float cutoff = kInfinity;
    if (last.count > batch_.max_active) {
      cutoff = nth_least(last.cost, last.count, static_cast<int32_t>(batch_.max_active));
      // The least cost is 0; tokens that have it expand even if more than max_active do.
      if (cutoff < kLeastPositive) cutoff = kLeastPositive;
    }
    cutoff_ = cutoff;
    // Twice over the arcs: first for the least cost, then for what is within the beam of it.
    float least = kInfinity;
    for_emitting(last, cutoff, lp, [&](float cost, int32_t, int32_t) {
      if (cost < least) least = cost;
    });
    const float cut = least_of_block(least) + batch_.beam;
    for_emitting(last, cutoff, lp, [&](float cost, int32_t state, int32_t arc) {
      if (cost < cut) reach(now, state, key_of(cost, arc));
    });
    return cut;
  }

  template <class Visit>
  RTFX_DEVICE void for_emitting(const PassingTokens& last, float cutoff, const float* lp,
                                const Visit& visit) {
    const int32_t groups = block_.threads() / Block::kGroup;
    for (int32_t i = block_.thread() / Block::kGroup; i < last.count; i += groups) {
      const float cost = last.cost[i];
      if (!(cost < cutoff)) continue;
      const int32_t s = last.state[i], end = graph_.emitting_begin[s + 1];
      int32_t a = graph_.emitting_begin[s] + block_.thread() % Block::kGroup;
      for (; a < end; a += Block::kGroup) {
        const GraphArc arc = graph_.arcs[a];
        visit((cost + weight(arc)) - lp[arc.column], arc.next, a);
      }
    }
  }

  RTFX_DEVICE float weight(const GraphArc& arc) const {
    if (arc.word == 0 || word_costs_ == nullptr) return arc.cost;
    return arc.cost + word_costs_[arc.word];
  }

  /// A path into `state`. True if it costs less than the best one before.
  RTFX_DEVICE bool reach(const PassingTokens& now, int32_t state, PassingKey key) {
    const PassingKey before = Block::minimum(&lane_.best[state], key);
    if (before == kNoKey) {  // for one thread only
      const int32_t i = Block::add(&shared_.count, 1);
      now.state[i] = state;
      now.cost[i] = kInfinity;
      now.slot[state] = i;
    }
    return key >> 32 < before >> 32;
  }

  /// Follows non-emitting arcs from each token whose cost is below the one that it was last
  /// followed with, until there is none. A token that another thread improves meanwhile has its
  /// turn in the next round; the end is the same in any order (viterbi.cpp says why).
  RTFX_DEVICE void follow_nonemitting(const PassingTokens& now, float cut) {
    bool again = true;
    while (again) {
      block_.sync();  // tokens of the round before are there, and nobody reads `improved`
      const int32_t count = shared_.count;
      if (block_.thread() == 0) shared_.improved = 0;
      block_.sync();
      for (int32_t i = block_.thread(); i < count; i += block_.threads()) {
        const int32_t s = now.state[i];
        const float cost = cost_of(Block::load(&lane_.best[s]));
        if (!(cost < now.cost[i])) continue;
        now.cost[i] = cost;
        for (int32_t a = graph_.nonemitting_begin[s]; a < graph_.nonemitting_begin[s + 1]; ++a) {
          const GraphArc arc = graph_.arcs[a];
          const float next = cost + weight(arc);
          if (next < cut && reach(now, arc.next, key_of(next, a))) Block::add(&shared_.improved, 1);
        }
      }
      block_.sync();
      again = shared_.improved != 0;
    }
  }

  /// Completes the frame: non-emitting arcs, traces, costs relative to the least. False without
  /// room for the traces; the tokens are gone then.
  RTFX_DEVICE bool finish_frame(const PassingTokens& last, PassingTokens& now, float cut) {
    follow_nonemitting(now, cut);
    now.count = shared_.count;
    float least = kInfinity;
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads())
      if (now.cost[i] < least) least = now.cost[i];
    least = least_of_block(least);
    if (block_.thread() == 0) {
      const auto count = static_cast<unsigned long long>(now.count);
      const unsigned long long first = Block::add(batch_.traces_used, count);
      const bool fits = first + count <= static_cast<unsigned long long>(batch_.trace_capacity);
      shared_.first_trace = fits ? static_cast<int32_t>(first) : -1;
      if (now.count > 0) shared_.offset += least;
    }
    block_.sync();
    now.first_trace = shared_.first_trace;
    const bool room = now.first_trace >= 0;
    if (room && batch_.lattice_beam >= 0) add_links(last, now, cut);
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      PassingKey* best = &lane_.best[now.state[i]];
      const int32_t arc = number_of(Block::load(best));
      *best = kNoKey;
      now.cost[i] -= least;
      if (room) batch_.traces[now.first_trace + i] = {arc, previous(last, now, arc)};
    }
    block_.sync();
    return room;
  }

  /// The ways into the frame's tokens, whose costs are final: once more over the arcs.
  RTFX_DEVICE void add_links(const PassingTokens& last, const PassingTokens& now, float cut) {
    const auto add = [&](float cost, int32_t state, int32_t arc) {
      if (!(cost < cut)) return;
      const float slack = cost - cost_of(Block::load(&lane_.best[state]));
      if (slack <= batch_.lattice_beam)
        add_link({now.first_trace + now.slot[state], previous(last, now, arc), arc, slack});
    };
    if (lp_ != nullptr) for_emitting(last, cutoff_, lp_, add);
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      const int32_t s = now.state[i];
      const float cost = cost_of(Block::load(&lane_.best[s]));
      for (int32_t a = graph_.nonemitting_begin[s]; a < graph_.nonemitting_begin[s + 1]; ++a)
        add(cost + weight(graph_.arcs[a]), graph_.arcs[a].next, a);
    }
    block_.sync();  // all have seen the costs
  }

  RTFX_DEVICE void add_link(const PassingLink& link) {
    const unsigned long long place = Block::add(batch_.links_used, 1ull);
    if (place < static_cast<unsigned long long>(batch_.link_capacity)) batch_.links[place] = link;
  }

  /// Index of the token that an arc of this frame's paths comes from.
  RTFX_DEVICE int32_t previous(const PassingTokens& last, const PassingTokens& now,
                               int32_t arc) const {
    if (arc < 0) return -1;
    const PassingTokens& from = graph_.arcs[arc].column >= 0 ? last : now;
    return from.first_trace + from.slot[graph_.source[arc]];
  }

  /// Finds the best tokens of the last frame and writes how the row ended; keeps the tokens of a
  /// piece. Without room nothing is kept, so that the row can be searched once more.
  RTFX_DEVICE void finish(int64_t n, const PassingRow& row, const PassingTokens& now, bool room) {
    if (block_.thread() == 0) shared_.best_final = shared_.best_open = kNoKey;
    block_.sync();
    for (int32_t i = block_.thread(); room && i < now.count; i += block_.threads()) {
      const int32_t s = now.state[i];
      Block::minimum(&shared_.best_open, key_of(now.cost[i], s));
      const float final_cost = graph_.final_cost[s];
      if (final_cost < kInfinity)
        Block::minimum(&shared_.best_final, key_of(now.cost[i] + final_cost, s));
    }
    const bool fits = room && (row.slot < 0 || now.count <= batch_.slots.capacity);
    const int64_t kept = row.slot * batch_.slots.capacity;
    for (int32_t i = block_.thread(); fits && row.slot >= 0 && i < now.count;
         i += block_.threads()) {
      batch_.slots.state[kept + i] = now.state[i];
      batch_.slots.cost[kept + i] = now.cost[i];
    }
    block_.sync();
    if (room && batch_.lattice_beam >= 0) add_end_links(n, now);
    if (block_.thread() == 0) batch_.ends[n] = end_of(n, now, room, fits);
    block_.sync();
  }

  RTFX_DEVICE void add_end_links(int64_t n, const PassingTokens& now) {
    const bool ends = shared_.best_final != kNoKey;
    const float least = cost_of(ends ? shared_.best_final : shared_.best_open);
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      const int32_t s = now.state[i];
      const float slack = (ends ? now.cost[i] + graph_.final_cost[s] : now.cost[i]) - least;
      if (slack <= batch_.lattice_beam)
        add_link({-1 - static_cast<int32_t>(n), now.first_trace + i, s, slack});
    }
  }

  RTFX_DEVICE PassingEnd end_of(int64_t n, const PassingTokens& now, bool room, bool fits) const {
    PassingEnd end{shared_.offset,
                   best_of(shared_.best_final, now),
                   best_of(shared_.best_open, now),
                   now.first_trace,
                   now.count,
                   0,
                   PassingStatus::dead};
    if (!room) {
      end.status = PassingStatus::out_of_traces;
    } else if (!fits) {
      end.status = PassingStatus::out_of_slot;
    } else if (now.count > 0) {
      const bool ends = end.in_final.token >= 0;
      end.status = ends ? PassingStatus::final : PassingStatus::open;
      end.arcs = write_path(n, now.first_trace + (ends ? end.in_final : end.of_all).token);
    }
    return end;
  }

  RTFX_DEVICE PassingBest best_of(PassingKey key, const PassingTokens& now) const {
    if (key == kNoKey) return {0, -1};
    return {cost_of(key), now.slot[number_of(key)]};
  }

  /// The path to a token; returns how many arcs it has.
  RTFX_DEVICE int32_t write_path(int64_t n, int32_t i) const {
    int32_t* arcs = batch_.path_arcs + n * batch_.path_capacity;
    int64_t place = batch_.path_capacity;
    while (i >= 0 && place > 0) {
      const PassingTrace trace = batch_.traces[i];
      if (trace.arc >= 0) arcs[--place] = trace.arc;
      i = trace.previous;
    }
    return static_cast<int32_t>(batch_.path_capacity - place);
  }

  /// The least of all threads' costs, none of which is NaN.
  RTFX_DEVICE float least_of_block(float cost) {
    const uint32_t infinity = ordered_bits(kInfinity);
    if (block_.thread() == 0) shared_.least = infinity;
    block_.sync();
    const uint32_t least = block_.least_of_group(ordered_bits(cost));
    if (least < infinity) Block::minimum(&shared_.least, least);
    block_.sync();
    const uint32_t result = shared_.least;
    block_.sync();
    return from_ordered_bits(result);
  }

  /// The n-th least (from 0) of `count` costs, none below 0: byte after byte of its bits, which for
  /// such numbers have their order.
  RTFX_DEVICE float nth_least(const float* costs, int32_t count, int32_t n) {
    uint32_t found = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      for (int32_t i = block_.thread(); i < 256; i += block_.threads()) shared_.histogram[i] = 0;
      block_.sync();
      for (int32_t i = block_.thread(); i < count; i += block_.threads()) {
        const uint32_t bits = ordered_bits(costs[i]) & 0x7fffffffu;
        if (shift == 24 || bits >> (shift + 8) == found)
          Block::add(&shared_.histogram[bits >> shift & 255u], 1u);
      }
      block_.sync();
      if (block_.thread() == 0) {
        int32_t digit = 0;
        while (n >= static_cast<int32_t>(shared_.histogram[digit]))
          n -= static_cast<int32_t>(shared_.histogram[digit++]);
        shared_.digit = digit;
        shared_.rank = n;
      }
      block_.sync();
      found = found << 8 | static_cast<uint32_t>(shared_.digit);
      n = shared_.rank;
    }
    float cost = 0;
    memcpy(&cost, &found, sizeof(cost));
    return cost;
  }

  Block& block_;
  const PassingGraph& graph_;
  const PassingLane& lane_;
  const PassingBatch& batch_;
  PassingShared& shared_;
  const float* word_costs_ = nullptr;  // of the row
  const float* lp_ = nullptr;          // of the frame; null before the first
  float cutoff_ = 0;                   // of its expansion
};

}  // namespace rtfx
