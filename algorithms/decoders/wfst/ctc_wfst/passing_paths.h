// The host's side of token passing: arrays for its graph, paths and lattices from its results, and
// the history of a stream.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

/// Returns the state that each arc leaves, [arc_count].
std::vector<int32_t> arc_sources(const GraphView& graph);

/// Returns PassingGraph::states, [states + 1].
std::vector<PassingState> passing_states(const GraphView& graph);

/// The lattices of a batch as one lattice, whose tokens are indices of traces, and the ends of each
/// row.
struct PassingLattice {
  WfstLattice lattice;
  std::vector<std::vector<WfstLattice::End>> ends;
};
PassingLattice passing_lattice(std::span<const PassingLink> links, int64_t traces, int64_t rows,
                               float beam);

/// Returns the upper bound of the arcs of a path of `frames` frames.
int64_t longest_path(const GraphView& graph, int64_t frames);

/// Returns the token at which the best path of a row ends. With `at_end`, the utterance ends here
/// and final states come first; otherwise more frames follow.
PassingBest best_token(const PassingEnd& end, bool at_end);

/// Returns the arcs of the path to best_token(), from `traces` on the host.
std::vector<int32_t> path_arcs(const PassingTrace* traces, const PassingEnd& end, bool at_end);

/// Returns the path to best_token(), which has the arcs `arcs`.
WfstPath passing_path(const GraphView& graph, const PassingEnd& end, bool at_end,
                      std::span<const int32_t> arcs);

/// The history of a stream on the host. Between pieces the GPU keeps only the tokens. This class
/// holds the traces of the paths to them, and drops the others now and then, so that an endless
/// stream needs the memory of its tokens and of one path.
class PieceHistory {
 public:
  static constexpr int32_t kNoPosition = -1;

  /// Adds a piece that ended with `end`. `traces` has the traces of the whole batch. `positions`
  /// has a number for each of them, which is kNoPosition before the first piece of the batch is
  /// added. A call writes only the numbers of its own piece's traces, so that several threads can
  /// add pieces of a batch at once.
  void append(const PassingEnd& end, const PassingTrace* traces, std::span<int32_t> positions);

  /// Returns the best path: see best_token() for `at_end`. The path is not alive before the first
  /// piece.
  WfstPath best_path(const GraphView& graph, bool at_end) const;

  /// Returns whether a piece was appended.
  bool begun() const { return begun_; }

  /// Returns the stream's next row; the caller sets its frames and its entry.
  PassingRow next_row() const;

  size_t size() const { return traces_.size(); }  // number of traces

 private:
  void drop_unused_traces();

  std::vector<PassingTrace> traces_;    // each has a higher index than the one before it
  std::vector<int32_t> token_traces_;   // the trace of each token of the last frame
  std::vector<int32_t> chain_, moved_;  // scratch
  size_t kept_traces_ = 0;              // number of traces after some were dropped the last time
  PassingEnd end_{0, {0, -1}, {0, -1}, 0, 0, 0, PassingStatus::dead};
  bool begun_ = false;
};

}  // namespace rtfx
