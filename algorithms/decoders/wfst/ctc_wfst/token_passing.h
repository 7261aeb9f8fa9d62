// The search of algorithms/shared/wfst/search.h by a block of threads: what each thread does in the
// phases of a frame. Written once for the threads of a GPU (kernels.cu) and for those of a CPU (the
// tests), and for both orders of phases: all of a row's in one kernel (row_passing.h), or a kernel
// for each (phase_passing.h). No LibTorch here: the kernels' source includes it.
//
// Which path is the best into a state is decided by an atomic minimum over keys: the cost in the
// upper half, the arc's number in the lower. So which thread comes first decides nothing but the
// order of the tokens in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "algorithms/decoders/wfst/ctc_wfst/emitting_arcs.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "base/gpu/rounding.h"

namespace rtfx {

/// A thread's part in its block's work. Block: that of algorithms/gpu/thread_block.h, and
///   kMostThreads            threads() is not above it
///   kHeld                   arcs that a thread holds at a time, a multiple of 4
///   copy(to, from, count)   begins to copy floats to memory of the block, by all threads
///   copied()                waits for this thread's part of all copies; sync() shows it to others
///   static minimum(p, v), add(p, v)   atomic; return the value before
///   static load(p)          of a key that others may be changing
template <class Block>
class TokenPassing {
 public:
  using Shared = PassingShared<Block::kMostThreads>;
  using Held = typename EmittingArcs<Block>::Held;

  RTFX_DEVICE TokenPassing(Block& block, const PassingGraph& graph,
                           const PassingWorkspace& workspace, const PassingBatch& batch,
                           Shared& shared)
      : block_(block),
        graph_(graph),
        workspace_(workspace),
        batch_(batch),
        shared_(shared),
        arcs_(block, graph, shared.tile) {}

  /// The phases that follow are of this row.
  RTFX_DEVICE void use(const PassingRow& row) { word_costs_ = row.word_costs; }

  /// The tokens before the row's first frame: the start's, or those that the piece before left.
  RTFX_DEVICE bool begin(const PassingRow& row, const PassingTokens& last, PassingTokens& now) {
    if (block_.thread() == 0) {
      shared_.frame.offset = row.offset;
      shared_.frame.count = shared_.lowered_count[0] = 0;
      shared_.frame.least = ordered_bits(0.0f);
      if (row.tokens < 0) reach(now, graph_.start, key_of(0.0f, -1));
    }
    use_arcs(last, 0, nullptr);
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
    use_arcs(last, choose(last), lp);
    // Twice over the arcs, or over those that are held: first for the least cost, then for what is
    // within the beam of it.
    Held held{};
    int32_t visits = 0;
    const float cut = find_cut(held, visits);
    if (visits == 1) {
      reach(now, held, cut);
    } else {
      reach_all(now, held, cut);
    }
    return cut;
  }

  /// Begins a frame that follows `last`: the cost from which on its tokens are not expanded.
  RTFX_DEVICE float choose(const PassingTokens& last) {
    if (block_.thread() == 0) shared_.frame.count = shared_.lowered_count[0] = 0;
    if (last.count <= batch_.max_active) return kInfinity;
    const float cutoff = nth_least(last.cost, last.count, static_cast<int32_t>(batch_.max_active));
    // The least cost is 0; tokens that have it expand even if more than max_active do.
    return cutoff < kLeastPositive ? kLeastPositive : cutoff;
  }

  /// The arcs of the phases that follow are those of `last` up to the cutoff.
  RTFX_DEVICE void use_arcs(const PassingTokens& last, float cutoff, const float* lp) {
    arcs_.begin_frame(last, cutoff, lp, word_costs_);
  }

  /// The least cost by an emitting arc, and the beam. `held`, `visits`: as visit_all() has them.
  RTFX_DEVICE float find_cut(Held& held, int32_t& visits) {
    float least = kInfinity;
    visits = arcs_.visit_all(held, [&] {
      RTFX_UNROLL
      for (int32_t k = 0; k < Block::kHeld; ++k)
        if (held.cost[k] < least) least = held.cost[k];
    });
    least = block_.all_reduce(least, [](float a, float b) { return a < b ? a : b; });
    if (block_.thread() == 0) shared_.frame.least = ordered_bits(least);
    return least + batch_.beam;
  }

  /// Paths by all emitting arcs that cost less than `cut`.
  RTFX_DEVICE void reach_all(const PassingTokens& now, Held& held, float cut) {
    arcs_.visit_all(held, [&] { reach(now, held, cut); });
  }

  /// Follows non-emitting arcs from all tokens, then from those whose cost that lowered, until
  /// there are none. What another thread lowers meanwhile is followed in the next round; the end
  /// is the same in any order and however often a token is followed (viterbi.cpp says why).
  RTFX_DEVICE void follow_nonemitting(const PassingTokens& now, float cut) {
    block_.sync();
    const float least = from_ordered_bits(shared_.frame.least);
    const int32_t* states = now.state;
    int32_t count = shared_.frame.count;
    block_.sync();
    for (int32_t round = 0; count > 0; ++round) {
      // Three counts: other threads may still read the last round's.
      if (block_.thread() == 0) shared_.lowered_count[(round + 1) % 3] = 0;
      for (int32_t i = block_.thread(); i < count; i += block_.threads())
        follow(now, states[i], cut, least, round);
      block_.sync();
      states = shared_.lowered[round % 2];
      count = shared_.lowered_count[round % 3];
      if (count > Block::kMostThreads) {  // they did not fit: all once more
        states = now.state;
        count = shared_.frame.count;
        block_.sync();
      }
    }
  }

  /// Completes the frame: non-emitting arcs, traces, costs relative to the least. False without
  /// room for the traces; the tokens are gone then.
  RTFX_DEVICE bool finish_frame(const PassingTokens& last, PassingTokens& now, float cut) {
    follow_nonemitting(now, cut);
    take_traces(now);
    add_links(last, now, cut);
    return keep(last, now);
  }

  /// Room for the traces of all tokens of the frame, or none.
  RTFX_DEVICE void take_traces(PassingTokens& now) {
    now.count = shared_.frame.count;
    if (block_.thread() == 0) {
      const auto count = static_cast<unsigned long long>(now.count);
      const unsigned long long first = Block::add(batch_.traces_used, count);
      const bool fits = first + count <= static_cast<unsigned long long>(batch_.trace_capacity);
      shared_.frame.first_trace = fits ? static_cast<int32_t>(first) : -1;
      if (now.count > 0) shared_.frame.offset += from_ordered_bits(shared_.frame.least);
    }
    block_.sync();
    now.first_trace = shared_.frame.first_trace;
  }

  /// Writes the traces and the costs, and empties the table of best paths. False without room.
  RTFX_DEVICE bool keep(const PassingTokens& last, const PassingTokens& now) {
    const float least = from_ordered_bits(shared_.frame.least);
    const bool room = now.first_trace >= 0;
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      PassingKey* best = &workspace_.best[now.state[i]];
      const PassingKey key = Block::load(best);
      const int32_t arc = number_of(key);
      *best = kNoKey;
      now.cost[i] = cost_of(key) - least;
      if (room) batch_.traces[now.first_trace + i] = {arc, previous(last, now, arc)};
    }
    block_.sync();
    return room;
  }

  /// The ways into the frame's tokens, whose costs are final: once more over the arcs.
  RTFX_DEVICE void add_links(const PassingTokens& last, const PassingTokens& now, float cut) {
    if (now.first_trace < 0 || batch_.lattice_beam < 0) return;
    const auto add = [&](float cost, int32_t state, int32_t arc) {
      if (!(cost < cut)) return;
      const float slack = cost - cost_of(Block::load(&workspace_.best[state]));
      if (slack <= batch_.lattice_beam)
        add_link({now.first_trace + now.slot[state], previous(last, now, arc), arc, slack});
    };
    Held held{};
    arcs_.visit_all(held, [&] {
      RTFX_UNROLL
      for (int32_t k = 0; k < Block::kHeld; ++k) add(held.cost[k], held.next[k], held.number[k]);
    });
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      const int32_t s = now.state[i];
      const float cost = cost_of(Block::load(&workspace_.best[s]));
      const int32_t end = graph_.states[s + 1].nonemitting_begin;
      for (int32_t a = graph_.states[s].nonemitting_begin; a < end; ++a)
        add(cost + cost_with(graph_.arcs[a], word_costs_), graph_.arcs[a].next, a);
    }
    block_.sync();  // all have seen the costs
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

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kLeastPositive = std::numeric_limits<float>::min();

  /// Paths by the arcs that cost less than `cut`. The atomic minima of all held arcs come first, so
  /// that they are in flight together.
  RTFX_DEVICE void reach(const PassingTokens& now, const Held& held, float cut) {
    PassingKey before[Block::kHeld];
    RTFX_UNROLL
    for (int32_t k = 0; k < Block::kHeld; ++k) {
      before[k] = 0;
      if (held.cost[k] < cut) {
        before[k] =
            Block::minimum(&workspace_.best[held.next[k]], key_of(held.cost[k], held.number[k]));
      }
    }
    RTFX_UNROLL
    for (int32_t k = 0; k < Block::kHeld; ++k)
      if (before[k] == kNoKey) add_token(now, held.next[k]);
  }

  /// A path into `state`. True if it costs less than the best one before.
  RTFX_DEVICE bool reach(const PassingTokens& now, int32_t state, PassingKey key) {
    const PassingKey before = Block::minimum(&workspace_.best[state], key);
    if (before == kNoKey) add_token(now, state);
    return key >> 32 < before >> 32;
  }

  /// For the one thread whose path was the first into the state.
  RTFX_DEVICE void add_token(const PassingTokens& now, int32_t state) {
    const int32_t i = Block::add(&shared_.frame.count, 1);
    now.state[i] = state;
    now.slot[state] = i;
  }

  RTFX_DEVICE void follow(const PassingTokens& now, int32_t state, float cut, float least,
                          int32_t round) {
    const float cost = cost_of(Block::load(&workspace_.best[state]));
    const int32_t end = graph_.states[state + 1].nonemitting_begin;
    for (int32_t a = graph_.states[state].nonemitting_begin; a < end; ++a) {
      const GraphArc arc = graph_.arcs[a];
      const float next = cost + cost_with(arc, word_costs_);
      if (!(next < cut) || !reach(now, arc.next, key_of(next, a))) continue;
      if (next < least) Block::minimum(&shared_.frame.least, ordered_bits(next));
      const int32_t place = Block::add(&shared_.lowered_count[round % 3], 1);
      if (place < Block::kMostThreads) shared_.lowered[round % 2][place] = arc.next;
    }
  }

  RTFX_DEVICE void add_link(const PassingLink& link) {
    const unsigned long long place = Block::add(batch_.links_used, 1ull);
    if (place < static_cast<unsigned long long>(batch_.link_capacity)) batch_.links[place] = link;
  }

  /// Index of the token that an arc of this frame's paths comes from.
  RTFX_DEVICE int32_t previous(const PassingTokens& last, const PassingTokens& now,
                               int32_t arc) const {
    if (arc < 0) return -1;
    const PassingTokens& from = arc < graph_.emitting_arcs ? last : now;
    return from.first_trace + from.slot[graph_.source[arc]];
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
    PassingEnd end{shared_.frame.offset,
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
      find_digit(n);
      block_.sync();
      found = found << 8 | static_cast<uint32_t>(shared_.digit);
      n = shared_.rank;
    }
    float cost = 0;
    memcpy(&cost, &found, sizeof(cost));
    return cost;
  }

  /// The bin of the histogram that holds the n-th, and which of the bin's it is.
  RTFX_DEVICE void find_digit(int32_t n) {
    const auto bin = [&](int32_t i) { return static_cast<int32_t>(shared_.histogram[i]); };
    const int32_t bins = ceil_div(256, block_.threads());  // of each thread
    const int32_t first = block_.thread() * bins;
    int32_t own = 0, all = 0;
    for (int32_t i = first; i < first + bins && i < 256; ++i) own += bin(i);
    n -= block_.exclusive_sum(own, all);
    if (n < 0 || n >= own) return;
    int32_t digit = first;
    while (n >= bin(digit)) n -= bin(digit++);
    shared_.digit = digit;
    shared_.rank = n;
  }

  Block& block_;
  const PassingGraph& graph_;
  const PassingWorkspace& workspace_;
  const PassingBatch& batch_;
  Shared& shared_;
  EmittingArcs<Block> arcs_;
  const float* word_costs_ = nullptr;  // of the row
};

}  // namespace rtfx
