// Token passing by a block of threads: the search of algorithms/shared/wfst/search.h, which has the
// objective and the phases of a frame. The code is written once for the threads of a GPU
// (kernels.cu) and for those of a CPU (the tests). The kernels' source includes this file, so it
// includes no LibTorch header. There are four parts:
//
//   EmittingArcs   spreads the emitting arcs of a frame's tokens evenly over the threads
//   TokenPassing   does the phases of a frame
//   RowPassing     runs all phases in one kernel, where a block searches row after row
//   PhasePassing   runs each phase as a kernel of its own, for all rows together
//
// An atomic minimum over keys decides which path into a state is the best. The upper half of a key
// is the cost, and the lower half is the number of the arc. So the timing of the threads decides
// only the order of the tokens in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "base/gpu/rounding.h"

namespace rtfx {

/// Divides tokens into tiles with one token for each thread, and lines up the arcs of a tile. So
/// all threads have the same work, whether a state has one arc or thousands, and neighbouring
/// threads read neighbouring arcs. This is the scan-based expansion of frontiers of Merrill,
/// Garland, Grimshaw, "Scalable GPU Graph Traversal", 2012. `Block`: see TokenPassing.
template <ReducingBlock Block>
class EmittingArcs {
 public:
  /// The arcs that a thread holds at a time, and the costs of paths by them, +infinity for no arc.
  struct Held {
    float cost[Block::kHeld];
    int32_t next[Block::kHeld], number[Block::kHeld];
  };

  RTFX_DEVICE EmittingArcs(Block& block, const PassingGraph& graph,
                           PassingTile<Block::kMostThreads>& tile)
      : block_(block), graph_(graph), tile_(tile) {}

  /// Begins with the arcs of those `tokens` that cost less than `cutoff`. `lp` are the
  /// log-probabilities of the frame; if it is null, there are no arcs.
  RTFX_DEVICE void begin_frame(const PassingTokens& tokens, float cutoff, const float* lp,
                               const float* word_costs) {
    tokens_ = tokens;
    if (lp == nullptr) tokens_.count = 0;
    cutoff_ = cutoff;
    lp_ = lp;
    word_costs_ = word_costs;
    loaded_ = -1;
  }

  /// Fills `held` with the next arcs of this thread and calls visit(), until there are no more
  /// arcs. Returns the number of calls, which is the same for all threads. If it is 1, `held` still
  /// has all arcs of the frame.
  template <class Visit>
  RTFX_DEVICE int32_t visit_all(Held& held, const Visit& visit) {
    int32_t visits = 0;
    for (int32_t first = 0; first < tokens_.count; first += block_.threads()) {
      if (first != loaded_) load(first);
      for (int32_t position = 0; position < arcs_; position += Block::kHeld * block_.threads()) {
        gather(position, held);
        visit();
        ++visits;
      }
    }
    return visits;
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr int32_t kTogether = 4;  // number of arcs whose loads are in flight together
  static_assert(Block::kHeld % kTogether == 0);

  /// Loads the tile of the tokens from `first` on.
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
    // The sum has a barrier, so that no thread reads the last tile any more.
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

  /// Loads this thread's arcs of the tile from `position` on: every threads()-th arc.
  RTFX_DEVICE void gather(int32_t position, Held& held) const {
    RTFX_UNROLL
    for (int32_t h = 0; h < Block::kHeld; h += kTogether) {
      if (position + h * block_.threads() < arcs_) {
        gather_together(position + h * block_.threads() + block_.thread(), held, h);
        continue;
      }
      RTFX_UNROLL
      for (int32_t k = 0; k < kTogether; ++k) {
        held.cost[h + k] = kInfinity;
        held.next[h + k] = held.number[h + k] = 0;
      }
    }
  }

  /// Does each step for kTogether arcs before the next step, so that their loads are in flight
  /// together.
  RTFX_DEVICE void gather_together(int32_t position, Held& held, int32_t h) const {
    int32_t at[kTogether], token[kTogether];
    RTFX_UNROLL
    for (int32_t k = 0; k < kTogether; ++k) {
      at[k] = position + k * block_.threads();
      if (at[k] >= arcs_) at[k] = arcs_ - 1;
      token[k] = 0;
    }
    // A binary search for the last token whose arcs begin at or before the position. A token
    // without arcs begins where the next token does, and so it is never the last one.
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
      held.cost[h + k] = position + k * block_.threads() < arcs_ ? cost : kInfinity;
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
  int32_t loaded_ = -1;  // first token of the tile in memory; -1: no tile
  int32_t tokens_in_tile_ = 0, arcs_ = 0, widest_step_ = 0;
};

/// The phases of a frame, as one thread of a block does them. `Block` has the members of
/// algorithms/gpu/thread_block.h, and
///   kMostThreads            upper bound of threads()
///   kHeld                   number of arcs that a thread holds at a time, a multiple of 4
///   copy(to, from, count)   all threads begin to copy floats to memory of the block
///   copied()                waits for this thread's part of all copies; sync() shows it to others
///   static minimum(p, v), add(p, v)   atomic operations that return the old value
///   static load(p)          reads a key that other threads may change
template <ReducingBlock Block>
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

  /// Makes the phases that follow work on this row.
  RTFX_DEVICE void use(const PassingRow& row) { word_costs_ = row.word_costs; }

  /// Makes the tokens before the row's first frame: the token of the start state, or those that the
  /// piece before left. Returns false if there is no room for them.
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
    const int64_t kept = row.entry * batch_.store.capacity;
    for (int32_t i = block_.thread(); i < now.count; i += block_.threads()) {
      now.state[i] = batch_.store.state[kept + i];
      now.cost[i] = batch_.store.cost[kept + i];
      now.token_of[now.state[i]] = i;
    }
    block_.sync();
    return true;
  }

  /// Moves from the tokens of one frame to the next by emitting arcs. Returns best + beam.
  RTFX_DEVICE float expand(const PassingTokens& last, const PassingTokens& now, const float* lp) {
    use_arcs(last, choose(last), lp);
    // Two passes over the arcs: the first one finds the least cost, the second one keeps the paths
    // within the beam. If a thread can hold its arcs, the second pass does not load them again.
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

  /// Begins a frame after `last`, and returns the cost from which on its tokens are not expanded.
  RTFX_DEVICE float choose(const PassingTokens& last) {
    if (block_.thread() == 0) shared_.frame.count = shared_.lowered_count[0] = 0;
    if (last.count <= batch_.max_active) return kInfinity;
    const float cutoff = nth_least(last.cost, last.count, static_cast<int32_t>(batch_.max_active));
    // Tokens with the least cost, 0, expand even if there are more than max_active of them.
    return cutoff < kLeastPositive ? kLeastPositive : cutoff;
  }

  /// Makes the phases that follow use the arcs of `last` up to the cutoff.
  RTFX_DEVICE void use_arcs(const PassingTokens& last, float cutoff, const float* lp) {
    arcs_.begin_frame(last, cutoff, lp, word_costs_);
  }

  /// Finds the least cost by an emitting arc, and returns it plus the beam. `held` and `visits` are
  /// as visit_all() leaves them.
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

  /// Adds the paths by all emitting arcs that cost less than `cut`.
  RTFX_DEVICE void reach_all(const PassingTokens& now, Held& held, float cut) {
    arcs_.visit_all(held, [&] { reach(now, held, cut); });
  }

  /// Follows non-emitting arcs from all tokens, then from tokens whose cost became lower, until
  /// there are none. A token that another thread lowers meanwhile is followed in the next sweep.
  /// The result does not depend on the order, nor on how often a token is followed
  /// (ctc_wfst_cpu.cpp says why).
  RTFX_DEVICE void follow_nonemitting(const PassingTokens& now, float cut) {
    block_.sync();
    const float least = from_ordered_bits(shared_.frame.least);
    const int32_t* states = now.state;
    int32_t count = shared_.frame.count;
    block_.sync();
    for (int32_t sweep = 0; count > 0; ++sweep) {
      // There are three counts, because other threads may still read the count of the last sweep.
      if (block_.thread() == 0) shared_.lowered_count[(sweep + 1) % 3] = 0;
      for (int32_t i = block_.thread(); i < count; i += block_.threads())
        follow(now, states[i], cut, least, sweep);
      block_.sync();
      states = shared_.lowered[sweep % 2];
      count = shared_.lowered_count[sweep % 3];
      if (count > Block::kMostThreads) {  // the list was too short: follow all tokens again
        states = now.state;
        count = shared_.frame.count;
        block_.sync();
      }
    }
  }

  /// Completes the frame: follows non-emitting arcs, writes traces, and makes costs relative to the
  /// least. Returns false if there is no room for the traces; the tokens are lost then.
  RTFX_DEVICE bool finish_frame(const PassingTokens& last, PassingTokens& now, float cut) {
    follow_nonemitting(now, cut);
    reserve_traces(now);
    add_links(last, now, cut);
    return keep(last, now);
  }

  /// Reserves room for the traces of all tokens of the frame; first_trace is -1 if there is none.
  RTFX_DEVICE void reserve_traces(PassingTokens& now) {
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

  /// Writes traces and costs, and empties the table of best paths. Returns false without room.
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

  /// Goes over the arcs once more and adds the links into the frame's tokens, whose costs are
  /// final.
  RTFX_DEVICE void add_links(const PassingTokens& last, const PassingTokens& now, float cut) {
    if (now.first_trace < 0 || batch_.lattice_beam < 0) return;
    const auto add = [&](float cost, int32_t state, int32_t arc) {
      if (!(cost < cut)) return;
      const float slack = cost - cost_of(Block::load(&workspace_.best[state]));
      if (slack <= batch_.lattice_beam)
        add_link({now.first_trace + now.token_of[state], previous(last, now, arc), arc, slack});
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
    block_.sync();  // all threads have read the costs
  }

  /// Finds the best tokens of the last frame, writes how the row ended, and stores the tokens of a
  /// stream. Without room nothing is stored, so that the row can be searched once more.
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
    const bool fits = room && (row.entry < 0 || now.count <= batch_.store.capacity);
    const int64_t kept = row.entry * batch_.store.capacity;
    for (int32_t i = block_.thread(); fits && row.entry >= 0 && i < now.count;
         i += block_.threads()) {
      batch_.store.state[kept + i] = now.state[i];
      batch_.store.cost[kept + i] = now.cost[i];
    }
    block_.sync();
    if (room && batch_.lattice_beam >= 0) add_end_links(n, now);
    if (block_.thread() == 0) batch_.ends[n] = end_of(n, now, room, fits);
    block_.sync();
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kLeastPositive = std::numeric_limits<float>::min();

  /// Adds the paths by the held arcs that cost less than `cut`. The atomic minima of all held arcs
  /// come first, so that they are in flight together.
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

  /// Adds a path into `state`. Returns whether it costs less than the best one before.
  RTFX_DEVICE bool reach(const PassingTokens& now, int32_t state, PassingKey key) {
    const PassingKey before = Block::minimum(&workspace_.best[state], key);
    if (before == kNoKey) add_token(now, state);
    return key >> 32 < before >> 32;
  }

  /// Adds a token. Only the thread whose path was the first into the state calls this.
  RTFX_DEVICE void add_token(const PassingTokens& now, int32_t state) {
    const int32_t i = Block::add(&shared_.frame.count, 1);
    now.state[i] = state;
    now.token_of[state] = i;
  }

  RTFX_DEVICE void follow(const PassingTokens& now, int32_t state, float cut, float least,
                          int32_t sweep) {
    const float cost = cost_of(Block::load(&workspace_.best[state]));
    const int32_t end = graph_.states[state + 1].nonemitting_begin;
    for (int32_t a = graph_.states[state].nonemitting_begin; a < end; ++a) {
      const GraphArc arc = graph_.arcs[a];
      const float next = cost + cost_with(arc, word_costs_);
      if (!(next < cut) || !reach(now, arc.next, key_of(next, a))) continue;
      if (next < least) Block::minimum(&shared_.frame.least, ordered_bits(next));
      const int32_t position = Block::add(&shared_.lowered_count[sweep % 3], 1);
      if (position < Block::kMostThreads) shared_.lowered[sweep % 2][position] = arc.next;
    }
  }

  RTFX_DEVICE void add_link(const PassingLink& link) {
    const unsigned long long position = Block::add(batch_.links_used, 1ull);
    if (position < static_cast<unsigned long long>(batch_.link_capacity))
      batch_.links[position] = link;
  }

  /// Returns the trace of the token that an arc of this frame's paths comes from.
  RTFX_DEVICE int32_t previous(const PassingTokens& last, const PassingTokens& now,
                               int32_t arc) const {
    if (arc < 0) return -1;
    const PassingTokens& from = arc < graph_.emitting_arcs ? last : now;
    return from.first_trace + from.token_of[graph_.source[arc]];
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
      end.status = PassingStatus::out_of_store;
    } else if (now.count > 0) {
      const bool ends = end.best_final.token >= 0;
      end.status = ends ? PassingStatus::final : PassingStatus::open;
      end.arcs = write_path(n, now.first_trace + (ends ? end.best_final : end.best_open).token);
    }
    return end;
  }

  RTFX_DEVICE PassingBest best_of(PassingKey key, const PassingTokens& now) const {
    if (key == kNoKey) return {0, -1};
    return {cost_of(key), now.token_of[number_of(key)]};
  }

  /// Writes the path to a token and returns its number of arcs.
  RTFX_DEVICE int32_t write_path(int64_t n, int32_t i) const {
    int32_t* arcs = batch_.path_arcs + n * batch_.path_capacity;
    int64_t position = batch_.path_capacity;
    while (i >= 0 && position > 0) {
      const PassingTrace trace = batch_.traces[i];
      if (trace.arc >= 0) arcs[--position] = trace.arc;
      i = trace.previous;
    }
    return static_cast<int32_t>(batch_.path_capacity - position);
  }

  /// Returns the n-th least (from 0) of `count` costs, none of which is negative. A radix select
  /// finds its bits byte by byte; the bits of such numbers have the order of the numbers.
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

  /// Finds the bin of the histogram that holds the n-th cost, and its rank within the bin.
  RTFX_DEVICE void find_digit(int32_t n) {
    const auto bin = [&](int32_t i) { return static_cast<int32_t>(shared_.histogram[i]); };
    const int32_t bins = ceil_div(256, block_.threads());  // bins of each thread
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
  const float* word_costs_ = nullptr;  // word costs of the row
};

/// Token passing with all phases in one kernel: a block of threads searches rows one after the
/// other, each from its first frame to its last.
template <ReducingBlock Block>
class RowPassing {
 public:
  using Shared = PassingShared<Block::kMostThreads>;

  /// `frames` has room for 2 * columns floats in faster memory than that of the rows, or is null.
  RTFX_DEVICE RowPassing(Block& block, const PassingGraph& graph, const PassingWorkspace& workspace,
                         const PassingBatch& batch, Shared& shared, float* frames)
      : block_(block),
        graph_(graph),
        workspace_(workspace),
        batch_(batch),
        shared_(shared),
        frames_(frames),
        passing_(block, graph, workspace, batch, shared) {}

  /// Searches rows until there are no more.
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
    block_.copied();  // waits for the copy of a frame that was not searched
    passing_.finish(n, row, now, room);
  }

  /// Returns the log-probabilities of a frame, which may be read after a sync(), and begins to copy
  /// those of the next frame.
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

/// Token passing with a kernel for each phase of a frame. The rows of a batch, one for each
/// workspace, go through their frames together. PassingProgress holds the state of a row between
/// two kernels.
template <ReducingBlock Block>
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

  /// Begins row `n`, if the batch has so many rows.
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

  /// Does a phase between `begin` and `finish` for the row's next frame. It does nothing if no
  /// frame, no token or no room is left.
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
    } else if constexpr (kPhase == PassingPhase::reserve) {
      passing_.reserve_traces(now);
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
    block_.sync();  // all threads have made their changes of the frame
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
  /// Reads the progress. A barrier keeps threads from changing it before all have read it.
  RTFX_DEVICE PassingProgress load() {
    const PassingProgress progress = progress_;
    if (block_.thread() == 0) {
      shared_.frame = progress.frame;
      shared_.lowered_count[0] = 0;
    }
    block_.sync();
    return progress;
  }

  /// Returns the tokens of the current frame (`before` 0) or of the frame before (1).
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
