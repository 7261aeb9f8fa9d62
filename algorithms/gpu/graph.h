// CUDA graphs with loops that the GPU ends by itself ("conditional nodes", CUDA 12.4 and later),
// recorded from ordinary stream work.
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
// recorder.stream(). That is LibTorch's current stream while recording, so its operators can be
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
  /// Returns the stream on which work is recorded. Inside the body of a node it is another stream.
  cudaStream_t stream() const;

  /// Returns the node that was recorded last in the graph, or in the body that is being recorded.
  /// Returns null before the first node.
  cudaGraphNode_t last_node() const;

  /// Creates a condition that is false when the graph starts. Kernels set it with
  /// cudaGraphSetConditional. It must get a node, or the graph cannot be instantiated.
  cudaGraphConditionalHandle condition();

  /// Records `body` as a loop. The graph tests the condition before each iteration.
  void while_node(cudaGraphConditionalHandle condition, const std::function<void()>& body);

 private:
  friend class Graph;
  cudaGraph_t root_ = nullptr;
};

/// Waits until the current GPU has done everything that is enqueued. Excludes recordings on all
/// threads and GPUs, since a recording fails if any thread waits for its device. So this call waits
/// for the end of a recording, and a recording waits for the end of this call. Recorded work that
/// calls this waits for ever. Throws c10::Error if enqueued work has failed.
void wait_for_device();

/// Gives memory that LibTorch keeps for later allocations back to the GPU. Excludes recordings as
/// wait_for_device() does.
void release_cached_memory();

/// An instantiated graph. Copies of this object share it. The memory that its recorded operators
/// use lives as long as the graph.
class Graph {
 public:
  Graph() = default;

  /// Runs `work` once and records the work that it enqueues. Waits for the device, so it must not
  /// run inside a timed pass. Throws std::runtime_error that names the failed call.
  ///
  /// A graph may share the memory of an earlier one, `shared`, except memory that a tensor still
  /// holds when recording ends. Only one of the two may run at a time then.
  static Graph record(const std::function<void(GraphRecorder&)>& work,
                      const Graph* shared = nullptr);

  /// Enqueues one run. Does not wait.
  void launch(cudaStream_t stream) const;

  /// Replaces the arguments of a recorded kernel in later launches. `arguments` has the form that
  /// cudaLaunchKernel takes, and is copied.
  void set_arguments(cudaGraphNode_t kernel, void** arguments) const;

  explicit operator bool() const { return executable_ != nullptr; }

 private:
  struct Executable;
  std::shared_ptr<const Executable> executable_;
};

/// Calls `work`, which records a graph. If memory runs out, it releases the memory that LibTorch's
/// allocator caches, and calls `work` once more. The allocator cannot release it during a
/// recording. `work` must be able to start over. Waits for the device. Throws what the second call
/// throws.
void retry_out_of_memory(const std::function<void()>& work);

/// A profiler sets this, and executable graphs are never destroyed then. After one was destroyed,
/// CUPTI 13.0 gives kernels in the bodies of conditional nodes the names of kernels of that earlier
/// graph.
extern bool keep_executable_graphs;

/// Returns why this machine cannot run conditional nodes, or an empty string if it can.
std::string conditional_nodes_missing();

}  // namespace rtfx
