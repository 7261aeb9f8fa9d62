// What token passing by a block of threads (token_passing.h) reads and writes. No LibTorch here:
// the kernel's source includes it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "algorithms/gpu/ordered_key.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/wfst/graph.h"

namespace rtfx {

/// Where a state's arcs of both kinds begin, side by side: reading the one brings the other into
/// the cache.
struct alignas(8) PassingState {
  int32_t emitting_begin, nonemitting_begin;
};

/// A decoding graph where the threads can read it.
struct PassingGraph {
  int32_t start = 0, columns = 0;
  int32_t emitting_arcs = 0;             // these come first
  const GraphArc* arcs = nullptr;        // as in GraphView
  const PassingState* states = nullptr;  // [states + 1]
  const float* final_cost = nullptr;     // as in GraphView
  const int32_t* source = nullptr;       // [arc_count] state that an arc leaves
};

/// The cost of an arc for an utterance. `word_costs`: as in PassingRow.
RTFX_DEVICE inline float cost_with(const GraphArc& arc, const float* word_costs) {
  if (arc.word == 0 || word_costs == nullptr) return arc.cost;
  return arc.cost + word_costs[arc.word];
}

/// ordered_bits() of a cost above the number of an arc (-1: none) plus 1, so that the minimum is
/// the least cost, and among equal costs the least number. No cost is -0, which would be below 0:
/// sums and differences of numbers that are not -0 never are -0.
using PassingKey = unsigned long long;
inline constexpr PassingKey kNoKey = ~PassingKey{0};

RTFX_DEVICE inline PassingKey key_of(float cost, int32_t number) {
  return PassingKey{ordered_bits(cost)} << 32 | static_cast<uint32_t>(number + 1);
}
RTFX_DEVICE inline float cost_of(PassingKey key) {
  return from_ordered_bits(static_cast<uint32_t>(key >> 32));
}
RTFX_DEVICE inline int32_t number_of(PassingKey key) {
  return static_cast<int32_t>(static_cast<uint32_t>(key)) - 1;
}

/// The tokens of a frame, in memory of the block; each array has room for every state.
struct PassingTokens {
  int32_t* state;
  float* cost;    // [token] once the frame is complete
  int32_t* slot;  // [state] the state's token; right only for states that have one
  int32_t count;
  int32_t first_trace;
};

/// Memory of a block. All of `best` is kNoKey between utterances.
struct PassingWorkspace {
  PassingKey* best;         // [states] the best path into a state at the frame that is being filled
  PassingTokens tokens[2];  // of the last frame and of this one, alternately
};

/// Memory of all blocks, one after the other. [workspaces, states], [workspaces, 2, states] each.
struct PassingWorkspaces {
  int32_t workspaces = 0;
  int64_t states = 0;
  PassingKey* best = nullptr;
  int32_t* state = nullptr;
  float* cost = nullptr;
  int32_t* slot = nullptr;

  RTFX_DEVICE PassingWorkspace workspace(int64_t i) const {
    const auto tokens = [&](int64_t place) {
      return PassingTokens{state + place * states, cost + place * states, slot + place * states, 0,
                           0};
    };
    return {best + i * states, {tokens(2 * i), tokens(2 * i + 1)}};
  }
};

struct PassingTrace {
  int32_t arc, previous;  // index of the token before; -1: none; or as kPieceBefore says
};

/// PassingTrace::previous of a token whose token before is of the piece before: this plus that
/// token's index among those of the piece's last frame. All such numbers are below -1.
inline constexpr int32_t kPieceBefore = std::numeric_limits<int32_t>::min();

/// A way into a token, as WfstLattice has it; tokens by the index of their traces. Into the end of
/// row n: `to` is -1 - n, `arc` is the token's state.
struct PassingLink {
  int32_t to, from, arc;
  float slack;
};

enum class PassingStatus : int32_t { final, open, dead, out_of_traces, out_of_slot };

/// The best token after a row's frames.
struct PassingBest {
  float cost;
  int32_t token;  // index among those of the last frame; -1: none
};

/// How a row ended.
struct PassingEnd {
  double offset;                 // to be added to the costs
  PassingBest in_final, of_all;  // with the final cost, and without it
  int32_t first_trace, tokens;   // of the last frame
  int32_t arcs;                  // of the path
  PassingStatus status;
};

/// Numbers that the blocks of a batch count up together; zeros before.
struct PassingCounters {
  unsigned long long traces_used, links_used;  // more than the capacity: it was too small
  int32_t next_row;
};

/// An utterance, or a piece of one that comes in pieces.
struct PassingRow {
  const float* lp = nullptr;          // [frames, columns] scaled log-probabilities
  const float* word_costs = nullptr;  // [W + 1], or null
  int32_t frames = 0;
  int32_t slot = -1;    // where tokens are kept between pieces; -1: nowhere
  int32_t tokens = -1;  // of the piece before, in the slot; -1: this is the first
  double offset = 0;    // of their costs
};

/// The tokens of utterances between their pieces. [slots, capacity] each.
struct PassingSlots {
  int64_t capacity = 0;
  int32_t* state = nullptr;
  float* cost = nullptr;
};

/// A batch of rows. Pointers are memory that the threads share.
struct PassingBatch {
  const PassingRow* rows = nullptr;  // [row_count], begun in this order
  int64_t row_count = 0;
  float beam = 0;
  int64_t max_active = 0;
  PassingSlots slots;

  PassingTrace* traces = nullptr;             // [trace_capacity] tokens of all frames of all rows
  int64_t trace_capacity = 0;                 // at most 2^31 - 1
  unsigned long long* traces_used = nullptr;  // 0 before; more than the capacity: it was too small
  int32_t* next_row = nullptr;                // 0 before

  float lattice_beam = -1;       // below 0: no links
  PassingLink* links = nullptr;  // [link_capacity], in any order
  int64_t link_capacity = 0;
  unsigned long long* links_used = nullptr;  // as traces_used

  int32_t* path_arcs = nullptr;  // [row_count, path_capacity]: arcs of the path in the last places
  int64_t path_capacity = 0;     // 0: paths are not written
  PassingEnd* ends = nullptr;    // [row_count]
};

/// A tile of EmittingArcs: a token for each thread, and their arcs one after the other.
template <int32_t kThreads>
struct PassingTile {
  int32_t begin[kThreads];   // [token] place of its first arc in that order
  int32_t number[kThreads];  // [token] to be added to a place: the arc's number
  float cost[kThreads];      // [token]
};

/// The frame that is being filled.
struct PassingFrame {
  double offset;        // what has been subtracted from all costs
  int32_t count;        // tokens
  uint32_t least;       // ordered bits of the least cost among them
  int32_t first_trace;  // -1: no room
};

/// The phases of a search, each of which can be a kernel of its own; a frame is those from `choose`
/// to `keep`.
enum class PassingPhase : int32_t {
  begin,   // the tokens before the first frame
  choose,  // the cost from which on tokens are not expanded
  bound,   // over all emitting arcs: the least cost, and with it the beam's end
  expand,  // over them again: paths within the beam
  follow,  // non-emitting arcs
  take,    // room for the traces of the tokens
  link,    // the lattice's ways into the tokens; without a lattice, nothing
  keep,    // traces and costs are written, the table of best paths is emptied
  finish,  // how the row ended
};

/// What one phase of a row leaves for the next, where each is a kernel of its own. By `searched`,
/// the frames that are complete: their tokens are in tokens[(searched + 1) % 2].
struct PassingProgress {
  PassingFrame frame;
  int32_t row;  // -1: none
  int32_t searched, room;
  int32_t count[2], first_trace[2];  // of each of the workspace's tokens
  float cutoff, cut;
};

/// What the threads of a block, at most kThreads, share.
template <int32_t kThreads>
struct PassingShared {
  int32_t row;
  PassingFrame frame;
  uint32_t histogram[256];
  int32_t digit, rank;
  PassingKey best_final, best_open;
  PassingTile<kThreads> tile;
  // States whose cost a round of non-emitting arcs lowered; how many, even if there is no room.
  int32_t lowered[2][kThreads], lowered_count[3];
};

// Token passing on a GPU: in one kernel, where each block searches utterances one after the other,
// or with a kernel for each phase of a frame.

/// Threads of a block. A wide block is the quickest for its utterance; where there are more
/// utterances than multiprocessors, two of half the width on each wait less for one another.
inline constexpr int32_t kWideBlock = 1024, kNarrowBlock = 512;

/// Threads for which a multiprocessor has registers, and the most blocks that it runs at a time.
inline constexpr int32_t kThreadsPerProcessor = 1024;
inline constexpr int32_t kBlocksPerProcessor = kThreadsPerProcessor / kNarrowBlock;

/// Enqueues one block for each row, as far as there are workspaces; all pointers are device memory.
/// Nothing is allocated and nothing waits. Throws std::runtime_error when the launch fails.
void launch_token_passing(const PassingGraph& graph, const PassingWorkspaces& workspaces,
                          const PassingBatch& batch, cudaStream_t stream);

/// Enqueues one phase, with a block for each workspace: `begin` for the batch's rows from
/// `first_row` on, the others for those that were begun. `batch` and `progress` [workspaces] are
/// device memory. A launch may be recorded in a graph and repeated: it depends on nothing that the
/// host knows but these pointers. Throws std::runtime_error when the launch fails.
void launch_phase(PassingPhase phase, const PassingGraph& graph,
                  const PassingWorkspaces& workspaces, const PassingBatch* batch,
                  PassingProgress* progress, int64_t first_row, cudaStream_t stream);

}  // namespace rtfx
