// Between the host's graph and paths and what token passing reads and writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

/// [arc_count]: the state that each arc leaves.
std::vector<int32_t> arc_sources(const GraphView& graph);

/// [states + 1], as PassingGraph has them.
std::vector<PassingState> passing_states(const GraphView& graph);

/// The lattices of a batch in one, tokens by the index of their traces, [traces] of them; and the
/// ends of each of its `rows` rows.
struct PassingLattice {
  WfstLattice lattice;
  std::vector<std::vector<WfstLattice::End>> ends;
};
PassingLattice passing_lattice(std::span<const PassingLink> links, int64_t traces, int64_t rows,
                               float beam);

/// Arcs that a path of `frames` frames can have.
int64_t longest_path(const GraphView& graph, int64_t frames);

/// The token at which the best path of a row ends: as if its frames were all, or as if more came.
PassingBest best_token(const PassingEnd& end, bool at_end);

/// The arcs of the path to it: back through `traces`, where the host has them.
std::vector<int32_t> path_arcs(const PassingTrace* traces, const PassingEnd& end, bool at_end);

/// The path to it, of which `arcs` are the arcs.
WfstPath passing_path(const GraphView& graph, const PassingEnd& end, bool at_end,
                      std::span<const int32_t> arcs);

// The paths of an utterance that is searched on a GPU in pieces. Between pieces the GPU keeps the
// tokens alone; what led to them is kept here, on the host.

/// Holds what the last tokens' paths need, and drops the rest now and then, so that an endless
/// stream needs the memory of its tokens and of one path.
class PieceHistory {
 public:
  static constexpr int32_t kNoPlace = -1;

  /// Adds a piece that ended with `end`. `traces` are those of the whole batch, the piece's among
  /// them. `places` has a number for each of them: kNoPlace in all before the first piece of the
  /// batch is added. This call writes those of its own piece's traces alone, so that several
  /// threads can add pieces of a batch at a time.
  void append(const PassingEnd& end, const PassingTrace* traces, std::span<int32_t> places);

  /// The best path, as if the frames so far were all (`at_end`) or as if more came. Not alive
  /// before the first piece.
  WfstPath best_path(const GraphView& graph, bool at_end) const;

  /// Whether a piece was appended.
  bool begun() const { return begun_; }

  /// The next piece of the utterance, but for its frames and where they are.
  PassingRow next_row() const;

  size_t size() const { return traces_.size(); }  // traces that are held

 private:
  void drop_unused_traces();

  std::vector<PassingTrace> traces_;    // each behind the one before it
  std::vector<int32_t> token_traces_;   // of each token of the last frame, its index in traces_
  std::vector<int32_t> chain_, moved_;  // scratch
  size_t kept_traces_ = 0;              // how many were left when some were dropped the last time
  PassingEnd end_{0, {0, -1}, {0, -1}, 0, 0, 0, PassingStatus::dead};
  bool begun_ = false;
};

}  // namespace rtfx
