// The emitting arcs of a frame's tokens, spread evenly over a block of threads. No LibTorch here:
// the kernel's source includes it.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "base/gpu/rounding.h"

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

// The search of algorithms/shared/wfst/search.h by a block of threads: what each thread does in the
// phases of a frame. Written once for the threads of a GPU (kernels.cu) and for those of a CPU (the
// tests), and for both orders of phases: all of a row's in one kernel (row_passing.h), or a kernel
// for each (phase_passing.h). No LibTorch here: the kernels' source includes it.
//
// Which path is the best into a state is decided by an atomic minimum over keys: the cost in the
// upper half, the arc's number in the lower. So which thread comes first decides nothing but the
// order of the tokens in memory.

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

// Token passing with all phases in one kernel: a block of threads searches rows one after the
// other, each from its first frame to its last. No LibTorch here: the kernel's source includes it.

/// A thread's part in its block's work. Block: as in token_passing.h.
template <class Block>
class RowPassing {
 public:
  using Shared = PassingShared<Block::kMostThreads>;

  /// `frames`: room for 2 * columns floats that is quicker to read than the rows; or null.
  RTFX_DEVICE RowPassing(Block& block, const PassingGraph& graph, const PassingWorkspace& workspace,
                         const PassingBatch& batch, Shared& shared, float* frames)
      : block_(block),
        graph_(graph),
        workspace_(workspace),
        batch_(batch),
        shared_(shared),
        frames_(frames),
        passing_(block, graph, workspace, batch, shared) {}

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
  RTFX_DEVICE void search(int64_t n, const PassingRow& row) {
    passing_.use(row);
    PassingTokens last = workspace_.tokens[0], now = workspace_.tokens[1];
    if (frames_ != nullptr && row.frames > 0) block_.copy(frames_, row.lp, graph_.columns);
    bool room = passing_.begin(row, last, now);
    for (int32_t t = 0; room && now.count > 0 && t < row.frames; ++t) {
      const PassingTokens swapped = last;
      last = now;
      now = swapped;
      const float cut = passing_.expand(last, now, frame(row, t));
      room = passing_.finish_frame(last, now, cut);
    }
    block_.copied();  // of a frame that was not searched any more
    passing_.finish(n, row, now, room);
  }

  /// Log-probabilities of a frame; sends for those of the next. They may be read after a sync().
  RTFX_DEVICE const float* frame(const PassingRow& row, int32_t t) {
    const float* lp = row.lp + int64_t{t} * graph_.columns;
    if (frames_ == nullptr) return lp;
    block_.copied();
    if (t + 1 < row.frames)
      block_.copy(frames_ + (t + 1) % 2 * graph_.columns, lp + graph_.columns, graph_.columns);
    return frames_ + t % 2 * graph_.columns;
  }

  Block& block_;
  const PassingGraph& graph_;
  const PassingWorkspace& workspace_;
  const PassingBatch& batch_;
  Shared& shared_;
  float* frames_;
  TokenPassing<Block> passing_;
};

// Token passing with a kernel for each phase of a frame: all rows of a batch, as far as there are
// workspaces, go through their frames together. What lies between two kernels is PassingProgress.
// No LibTorch here: the kernels' source includes it.

/// A thread's part in its block's work on one row. Block: as in token_passing.h.
template <class Block>
class PhasePassing {
 public:
  using Shared = PassingShared<Block::kMostThreads>;

  RTFX_DEVICE PhasePassing(Block& block, const PassingGraph& graph,
                           const PassingWorkspace& workspace, const PassingBatch& batch,
                           Shared& shared, PassingProgress& progress)
      : block_(block),
        graph_(graph),
        workspace_(workspace),
        batch_(batch),
        shared_(shared),
        progress_(progress),
        passing_(block, graph, workspace, batch, shared) {}

  /// Begins row `n`, if the batch has it.
  RTFX_DEVICE void begin(int64_t n) {
    PassingProgress begun{};
    begun.row = n < batch_.row_count ? static_cast<int32_t>(n) : -1;
    if (begun.row >= 0) {
      const PassingRow& row = batch_.rows[n];
      PassingTokens now = workspace_.tokens[1];
      passing_.use(row);
      begun.room = passing_.begin(row, workspace_.tokens[0], now) ? 1 : 0;
      begun.count[1] = now.count;
      begun.first_trace[1] = now.first_trace;
      begun.frame = shared_.frame;
    }
    if (block_.thread() == 0) progress_ = begun;
  }

  /// A phase between `begin` and `finish`, of the row's next frame. Nothing where no frame is left,
  /// or no token, or no room.
  template <PassingPhase kPhase>
  RTFX_DEVICE void frame_phase() {
    const PassingProgress before = load();
    if (before.row < 0) return;
    const PassingRow& row = batch_.rows[before.row];
    const PassingTokens last = tokens(before, 1);
    PassingTokens now = tokens(before, 0);
    if (before.room == 0 || last.count == 0 || before.searched >= row.frames) return;
    const float* lp = row.lp + int64_t{before.searched} * graph_.columns;
    passing_.use(row);
    const bool writes = block_.thread() == 0;
    if constexpr (kPhase == PassingPhase::choose) {
      const float cutoff = passing_.choose(last);
      if (writes) progress_.cutoff = cutoff;
    } else if constexpr (kPhase == PassingPhase::bound) {
      passing_.use_arcs(last, before.cutoff, lp);
      typename TokenPassing<Block>::Held held{};
      int32_t visits = 0;
      const float cut = passing_.find_cut(held, visits);
      if (writes) progress_.cut = cut;
    } else if constexpr (kPhase == PassingPhase::expand) {
      passing_.use_arcs(last, before.cutoff, lp);
      typename TokenPassing<Block>::Held held{};
      passing_.reach_all(now, held, before.cut);
    } else if constexpr (kPhase == PassingPhase::follow) {
      passing_.follow_nonemitting(now, before.cut);
    } else if constexpr (kPhase == PassingPhase::take) {
      passing_.take_traces(now);
      if (writes) {
        progress_.count[before.searched % 2] = now.count;
        progress_.first_trace[before.searched % 2] = now.first_trace;
      }
    } else if constexpr (kPhase == PassingPhase::link) {
      passing_.use_arcs(last, before.cutoff, lp);
      passing_.add_links(last, now, before.cut);
    } else {
      static_assert(kPhase == PassingPhase::keep);
      const bool room = passing_.keep(last, now);
      if (writes) {
        progress_.room = room ? 1 : 0;
        progress_.searched = before.searched + 1;
      }
    }
    block_.sync();  // what the threads changed of the frame is complete
    if (writes) progress_.frame = shared_.frame;
  }

  RTFX_DEVICE void finish() {
    const PassingProgress end = load();
    if (end.row < 0) return;
    const PassingRow& row = batch_.rows[end.row];
    passing_.use(row);
    passing_.finish(end.row, row, tokens(end, 1), end.room != 0);
  }

 private:
  /// For all threads: none changes the progress before all have read it.
  RTFX_DEVICE PassingProgress load() {
    const PassingProgress progress = progress_;
    if (block_.thread() == 0) {
      shared_.frame = progress.frame;
      shared_.lowered_count[0] = 0;
    }
    block_.sync();
    return progress;
  }

  /// Of the frame that is being searched (0), or of the one before (1).
  RTFX_DEVICE PassingTokens tokens(const PassingProgress& progress, int32_t before) const {
    const bool second = (progress.searched + before) % 2 == 1;
    PassingTokens tokens = second ? workspace_.tokens[1] : workspace_.tokens[0];
    tokens.count = second ? progress.count[1] : progress.count[0];
    tokens.first_trace = second ? progress.first_trace[1] : progress.first_trace[0];
    return tokens;
  }

  Block& block_;
  const PassingGraph& graph_;
  const PassingWorkspace& workspace_;
  const PassingBatch& batch_;
  Shared& shared_;
  PassingProgress& progress_;
  TokenPassing<Block> passing_;
};

}  // namespace rtfx
