// The memory of token passing by a block of threads (token_passing.h), and the launches of its
// kernels. The kernels' source includes this file, so it includes no LibTorch header.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "algorithms/gpu/ordered_key.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/wfst/graph.h"

namespace rtfx {

/// The first arcs of a state, of both kinds. They are neighbours in memory, so that reading one
/// brings the other into the cache.
struct alignas(8) PassingState {
  int32_t emitting_begin, nonemitting_begin;
};

/// A decoding graph in memory that the threads can read.
struct PassingGraph {
  int32_t start = 0, columns = 0;
  int32_t emitting_arcs = 0;             // emitting arcs come first
  const GraphArc* arcs = nullptr;        // as in GraphView
  const PassingState* states = nullptr;  // [states + 1]
  const float* final_cost = nullptr;     // as in GraphView
  const int32_t* source = nullptr;       // [arc_count] the state that an arc leaves
};

/// Returns the cost of an arc for an utterance. `word_costs`: see PassingRow.
RTFX_DEVICE inline float cost_with(const GraphArc& arc, const float* word_costs) {
  if (arc.word == 0 || word_costs == nullptr) return arc.cost;
  return arc.cost + word_costs[arc.word];
}

/// Holds a cost and the number of an arc in one integer. The upper half is ordered_bits() of the
/// cost. The lower half is the number plus 1, where the number -1 means no arc. The minimum of keys
/// is the least cost, and among equal costs the least number. No cost is -0, which would be below
/// 0: sums and differences of numbers that are not -0 are never -0.
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

/// The tokens of a frame, in memory of the block. Each array has room for every state.
struct PassingTokens {
  int32_t* state;
  float* cost;        // [token] valid when the frame is complete
  int32_t* token_of;  // [state] the state's token; valid only for states that have one
  int32_t count;
  int32_t first_trace;
};

/// The memory of a block. Between utterances, all of `best` is kNoKey.
struct PassingWorkspace {
  PassingKey* best;         // [states] the best path into a state at the current frame
  PassingTokens tokens[2];  // tokens of the last frame and of this one, alternately
};

/// The memory of all blocks: `best` [workspaces, states], the other arrays [workspaces, 2, states].
struct PassingWorkspaces {
  int32_t workspaces = 0;
  int64_t states = 0;
  PassingKey* best = nullptr;
  int32_t* state = nullptr;
  float* cost = nullptr;
  int32_t* token_of = nullptr;

  RTFX_DEVICE PassingWorkspace workspace(int64_t i) const {
    const auto tokens = [&](int64_t index) {
      return PassingTokens{state + index * states, cost + index * states, token_of + index * states,
                           0, 0};
    };
    return {best + i * states, {tokens(2 * i), tokens(2 * i + 1)}};
  }
};

/// The history of a token: its arc, and the trace of the token before.
struct PassingTrace {
  int32_t arc, previous;  // previous is an index, -1 for none, or relative to kPieceBefore
};

/// If the token before belongs to the piece before, PassingTrace::previous is kPieceBefore plus the
/// token's index among the tokens of that piece's last frame. All such numbers are below -1.
inline constexpr int32_t kPieceBefore = std::numeric_limits<int32_t>::min();

/// A link of a WfstLattice, whose tokens are indices of traces. For a link to the end of row n,
/// `to` is -1 - n and `arc` is the token's state.
struct PassingLink {
  int32_t to, from, arc;
  float slack;
};

enum class PassingStatus : int32_t { final, open, dead, out_of_traces, out_of_store };

/// The best token after a row's frames.
struct PassingBest {
  float cost;
  int32_t token;  // index among those of the last frame; -1: none
};

/// The end of a search over a row.
struct PassingEnd {
  double offset;                      // sum of what was subtracted from the costs
  PassingBest best_final, best_open;  // best_final counts final costs, best_open does not
  int32_t first_trace, tokens;        // first trace and number of tokens of the last frame
  int32_t arcs;                       // length of the path
  PassingStatus status;
};

/// Numbers that the blocks of a batch count up together. They begin at 0.
struct PassingCounters {
  unsigned long long traces_used, links_used;  // above the capacity if that was too small
  int32_t next_row;
};

/// An utterance, or a piece of a stream.
struct PassingRow {
  const float* lp = nullptr;          // [frames, columns] scaled log-probabilities
  const float* word_costs = nullptr;  // [W + 1], or null
  int32_t frames = 0;
  int32_t entry = -1;   // a stream's entry in PassingStore; -1: the row is a whole utterance
  int32_t tokens = -1;  // number of stored tokens of the piece before; -1: this is the first piece
  double offset = 0;    // offset of their costs
};

/// The tokens of streams between their pieces. Each array is [entries, capacity].
struct PassingStore {
  int64_t capacity = 0;
  int32_t* state = nullptr;
  float* cost = nullptr;
};

/// A batch of rows. The threads share the memory that it points to.
struct PassingBatch {
  const PassingRow* rows = nullptr;  // [row_count], searched in this order
  int64_t row_count = 0;
  float beam = 0;
  int64_t max_active = 0;
  PassingStore store;

  PassingTrace* traces = nullptr;             // [trace_capacity] traces of all frames of all rows
  int64_t trace_capacity = 0;                 // at most 2^31 - 1
  unsigned long long* traces_used = nullptr;  // see PassingCounters
  int32_t* next_row = nullptr;

  float lattice_beam = -1;       // below 0: no links
  PassingLink* links = nullptr;  // [link_capacity], in any order
  int64_t link_capacity = 0;
  unsigned long long* links_used = nullptr;

  int32_t* path_arcs = nullptr;  // [row_count, path_capacity] arcs of each path, right-aligned
  int64_t path_capacity = 0;     // 0: paths are not written
  PassingEnd* ends = nullptr;    // [row_count]
};

/// A tile of EmittingArcs has one token for each thread, and the arcs of these tokens in a row.
template <int32_t kThreads>
struct PassingTile {
  int32_t begin[kThreads];   // [token] position of its first arc in the tile
  int32_t number[kThreads];  // [token] position plus this is the number of an arc
  float cost[kThreads];      // [token]
};

/// The state of the current frame.
struct PassingFrame {
  double offset;        // sum of what was subtracted from all costs
  int32_t count;        // number of tokens
  uint32_t least;       // ordered bits of the least cost
  int32_t first_trace;  // -1: there is no room
};

/// The phases of a search. Each can be a kernel of its own. A frame consists of those from `choose`
/// to `keep`.
enum class PassingPhase : int32_t {
  begin,    // makes the tokens before the first frame
  choose,   // finds the cost from which on tokens are not expanded
  bound,    // finds the least cost over all emitting arcs, and with it the limit of the beam
  expand,   // goes over these arcs again and keeps the paths within the beam
  follow,   // follows non-emitting arcs
  reserve,  // reserves room for the traces of the tokens
  link,     // adds the links into the tokens to the lattice, if there is one
  keep,     // writes traces and costs, and empties the table of best paths
  finish,   // finds how the row ended
};

/// The state of a row between two phases, where each phase is a kernel of its own. `searched`
/// frames are complete, and the tokens of the last one are in tokens[(searched + 1) % 2].
struct PassingProgress {
  PassingFrame frame;
  int32_t row;  // -1: no row
  int32_t searched, room;
  int32_t count[2], first_trace[2];  // of both token lists of the workspace
  float cutoff, cut;
};

/// The memory that the threads of a block share. A block has at most kThreads threads.
template <int32_t kThreads>
struct PassingShared {
  int32_t row;
  PassingFrame frame;
  uint32_t histogram[256];
  int32_t digit, rank;
  PassingKey best_final, best_open;
  PassingTile<kThreads> tile;
  // States whose cost a sweep over non-emitting arcs lowered. The counts may exceed kThreads.
  int32_t lowered[2][kThreads], lowered_count[3];
};

/// Threads of a block. A wide block is the fastest for one utterance. If there are more utterances
/// than multiprocessors, two blocks of half the width on each multiprocessor are faster.
inline constexpr int32_t kWideBlock = 1024, kNarrowBlock = 512;

/// Threads for which a multiprocessor has registers, and the number of blocks that it runs at once.
inline constexpr int32_t kThreadsPerProcessor = 1024;
inline constexpr int32_t kBlocksPerProcessor = kThreadsPerProcessor / kNarrowBlock;

/// Enqueues the whole search as one kernel, with a block for each row but at most one for each
/// workspace. A block searches rows one after the other. All pointers are device memory. The call
/// allocates nothing and does not wait. Throws std::runtime_error if the launch fails.
void launch_token_passing(const PassingGraph& graph, const PassingWorkspaces& workspaces,
                          const PassingBatch& batch, cudaStream_t stream);

/// Enqueues one phase with a block for each workspace. The phase `begin` starts the batch's rows
/// from `first_row` on, and the other phases go on with these rows. `batch` and `progress`
/// [workspaces] are device memory. A launch can be recorded into a graph and repeated, because it
/// uses no value of the host except its arguments. Throws std::runtime_error if the launch fails.
void launch_phase(PassingPhase phase, const PassingGraph& graph,
                  const PassingWorkspaces& workspaces, const PassingBatch* batch,
                  PassingProgress* progress, int64_t first_row, cudaStream_t stream);

}  // namespace rtfx
