// CUDA graphs with loops and branches that the GPU decides by itself ("conditional nodes",
// CUDA 12.4 and later), recorded from ordinary stream work.
//
//   const Graph graph = Graph::record([&](GraphRecorder& recorder) {
//     const auto again = recorder.condition();
//     start(recorder.stream());  // its kernel calls cudaGraphSetConditional(again, 1)
//
//     recorder.while_node(again, [&] {
//       step(recorder.stream());  // its kernel says whether there is another round
//     });
//   });
//   graph.launch(stream);
//
// Recorded work must not wait for the device, allocate with cudaMalloc, or use another stream than
// recorder.stream(), which is LibTorch's current stream while recording: its operators can be
// recorded too. Memory that they allocate meanwhile belongs to the graph.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>

namespace rtfx {

class GraphRecorder {
 public:
  /// Where work is being recorded: another stream inside a node's body.
  cudaStream_t stream() const;

  /// The node that was recorded last, in the graph or in the body of the node under way.
  cudaGraphNode_t last_node() const;

  /// A condition, false when the graph starts. Kernels set it with cudaGraphSetConditional. It must
  /// get a node, or the graph cannot be instantiated.
  cudaGraphConditionalHandle condition();

  /// `body` again and again while the condition holds; it is looked at before each round.
  void while_node(cudaGraphConditionalHandle condition, const std::function<void()>& body);
  /// `body` once if the condition holds.
  void if_node(cudaGraphConditionalHandle condition, const std::function<void()>& body);

 private:
  friend class Graph;
  void node(cudaGraphConditionalHandle condition, cudaGraphConditionalNodeType type,
            const std::function<void()>& body);
  cudaGraph_t root_ = nullptr;
};

/// An instantiated graph. Movable; the memory that its recorded operators use lives as long as it.
class Graph {
 public:
  Graph() = default;

  /// Runs `work` once, recording what it enqueues. Throws std::runtime_error with the call that
  /// failed; waits for the device, and must not run inside a timed pass.
  ///
  /// A graph may share the memory of an earlier one, `shared`, for everything that no tensor holds
  /// when recording ends: then only one of them may run at a time.
  static Graph record(const std::function<void(GraphRecorder&)>& work,
                      const Graph* shared = nullptr);

  /// Enqueues one run. Does not wait.
  void launch(cudaStream_t stream) const;

  /// Gives a recorded kernel other arguments, for launches to come. arguments: as for
  /// cudaLaunchKernel; they are copied.
  void set_arguments(cudaGraphNode_t kernel, void** arguments) const;

  explicit operator bool() const { return executable_ != nullptr; }

 private:
  struct Executable;
  std::shared_ptr<const Executable> executable_;
};

/// Calls `work`, which records, and calls it again if there was too little memory, after LibTorch's
/// allocator has given back what it keeps for later: during a recording it cannot. `work` must be
/// able to start over. Waits for the device. Throws what the second call throws.
void retry_out_of_memory(const std::function<void()>& work);

/// Set by a profiler: executable graphs are never destroyed then. CUPTI (13.0) gives kernels in the
/// bodies of conditional nodes the names of those of an earlier graph that was.
extern bool keep_executable_graphs;

/// Why this machine cannot run conditional nodes; empty when it can.
std::string conditional_nodes_missing();

}  // namespace rtfx
