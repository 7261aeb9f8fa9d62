// A decoding graph on a GPU, and the memory in which blocks of threads search it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/graph.h"

namespace rtfx {

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
  /// Makes room for more traces than `used`. Throws UserError at the limit, 2^31 - 1.
  void grow_traces(int64_t used);

  const at::Tensor& links() const { return links_; }  // [capacity, 4] int32
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

}  // namespace rtfx
