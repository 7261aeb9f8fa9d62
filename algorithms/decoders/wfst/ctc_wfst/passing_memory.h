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

/// How a search of rows ended.
struct PassingRun {
  std::vector<PassingEnd> ends;  // of each row
  // Numbers that were asked for. More traces than there is room for: some rows ended with
  // PassingStatus::out_of_traces. More links than there is room for: some links are missing.
  int64_t traces_used = 0, links_used = 0;
};

class PassingMemory {
 public:
  /// Copies the graph to `device`, a GPU. `name` is what errors are about. Throws UserError where
  /// the graph and one row do not fit, with the sizes.
  PassingMemory(const WfstGraph& graph, const std::string& name, at::Device device);

  const WfstGraph& graph() const { return graph_; }
  at::Device device() const { return device_; }

  /// Makes a workspace for each of `rows`, as far as the GPU has multiprocessors and memory for
  /// them; the other rows wait until one is free. Never takes workspaces away.
  void make_workspaces(int64_t rows);
  int64_t workspaces() const { return workspaces_.workspaces; }

  // What is on the device, for a launch.
  const PassingGraph& passing_graph() const { return passing_graph_; }
  const PassingWorkspaces& passing_workspaces() const { return workspaces_; }

  const at::Tensor& traces() const { return traces_; }  // [capacity, 2] int32
  /// Room for more traces than `used`, as `rows` rows left it. Throws UserError at the limit, 2^31.
  void grow_traces(int64_t used);

  const at::Tensor& links() const { return links_; }  // [capacity, 4] int32
  void grow_links(int64_t used);

  /// Enqueues the search of a batch.
  using Launch = std::function<void(const PassingBatch& batch)>;

  /// Searches the rows, by one kernel unless there is another `launch`. `batch`: without rows,
  /// traces, links, ends and counters, which are set here. One wait for the GPU, through `reads`.
  PassingRun run(PassingBatch batch, const std::vector<PassingRow>& rows, HostReads& reads,
                 const Launch& launch = {}) const;

  /// A copy on the GPU, without waiting. `bytes`: one after the other, of any type.
  at::Tensor upload(const void* data, int64_t bytes) const;

 private:
  WfstGraph graph_;
  at::Device device_;
  std::vector<at::Tensor> graph_memory_;
  PassingGraph passing_graph_;
  at::Tensor best_, state_, cost_, slot_, traces_, links_;
  PassingWorkspaces workspaces_;
};

}  // namespace rtfx
