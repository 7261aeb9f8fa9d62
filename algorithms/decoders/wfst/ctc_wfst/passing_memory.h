// The memory of token passing, and the best paths that are read from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

// A decoding graph on a GPU, and the memory in which blocks of threads search it.

/// The end of a search over rows.
struct PassingRun {
  std::vector<PassingEnd> ends;  // [rows]
  /// The numbers of traces and links that the search needed. If there was room for fewer traces,
  /// some rows ended with PassingStatus::out_of_traces. If there was room for fewer links, some are
  /// missing.
  int64_t traces_used = 0, links_used = 0;
};

class PassingMemory {
 public:
  /// Copies the graph to `device`, a GPU, and waits for the copy. Errors refer to `name`. Throws
  /// UserError with the sizes if the graph and one row do not fit.
  PassingMemory(const WfstGraph& graph, const std::string& name, at::Device device);

  const WfstGraph& graph() const { return graph_; }
  at::Device device() const { return device_; }

  /// Makes a workspace for each of `rows`, as far as the GPU has multiprocessors and memory for
  /// them. Further rows wait until a workspace is free. The number of workspaces never falls.
  void make_workspaces(int64_t rows);
  int64_t workspaces() const { return workspaces_.workspaces; }

  // Arguments of launches.
  const PassingGraph& passing_graph() const { return passing_graph_; }
  const PassingWorkspaces& passing_workspaces() const { return workspaces_; }

  const at::Tensor& traces() const { return traces_; }  // [capacity, 2] int32
  /// Makes room for more traces than `used`. The old traces are lost. Throws UserError at the
  /// limit, 2^31 - 1.
  void grow_traces(int64_t used);

  const at::Tensor& links() const { return links_; }  // [capacity, 4] int32
  /// Makes room for more links than `used`. The old links are lost.
  void grow_links(int64_t used);

  /// Enqueues the search of a batch.
  using Launch = std::function<void(const PassingBatch& batch)>;

  /// Searches the rows with `launch`, or with one kernel if it is empty. The function sets rows,
  /// traces, links, ends and counters of `batch`. It waits for the GPU once, through `reads`.
  PassingRun run(PassingBatch batch, const std::vector<PassingRow>& rows, HostReads& reads,
                 const Launch& launch = {}) const;

  /// Returns a copy of `bytes` bytes on the GPU. Does not wait.
  at::Tensor upload(const void* data, int64_t bytes) const;

 private:
  WfstGraph graph_;
  at::Device device_;
  std::vector<at::Tensor> graph_memory_;
  PassingGraph passing_graph_;
  at::Tensor best_, state_, cost_, token_of_, traces_, links_;
  PassingWorkspaces workspaces_;
};

// The host's side of token passing: arrays for its graph, paths and lattices from its results, and
// the history of a stream.

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
/// Makes the lattices of a batch from its links on the host. `traces` is the number of all traces,
/// and `beam` is the lattice beam.
PassingLattice passing_lattice(std::span<const PassingLink> links, int64_t traces, int64_t rows,
                               float beam);

/// Returns an upper bound of the number of arcs in a path of `frames` frames.
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
/// holds the traces of the paths to them, and drops the others now and then. So an endless stream
/// needs the memory of its tokens and of one path.
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

  std::vector<PassingTrace> traces_;    // each has a higher index than its `previous`
  std::vector<int32_t> token_traces_;   // the trace of each token of the last frame
  std::vector<int32_t> chain_, moved_;  // scratch
  size_t kept_traces_ = 0;              // number of traces after some were dropped the last time
  PassingEnd end_{0, {0, -1}, {0, -1}, 0, 0, 0, PassingStatus::dead};
  bool begun_ = false;
};

}  // namespace rtfx
