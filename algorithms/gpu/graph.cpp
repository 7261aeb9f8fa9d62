#include "algorithms/gpu/graph.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>

#include "base/gpu/check.h"
#include "base/nvtx.h"

namespace rtfx {

bool keep_executable_graphs = false;

namespace {

using c10::MempoolId_t;

constexpr auto kMode = cudaStreamCaptureModeThreadLocal;  // other threads may go on allocating
constexpr int kFirstDriver = 12040;

using Workspaces = at::cuda::WorkspaceMapWithMutex;

/// Returns the workspaces of cuBLAS and of cuBLASLt, each with one entry per handle and stream.
std::array<Workspaces*, 2> cublas_workspaces() {
  return {&at::cuda::cublas_handle_stream_to_workspace(),
          &at::cuda::cublaslt_handle_stream_to_workspace()};
}

/// While the pool is open, memory that LibTorch allocates for this thread, on any stream of the
/// device, comes from it. It is a pool of its own, or the pool of `shared`.
class PrivatePool {
 public:
  explicit PrivatePool(const PrivatePool* shared) : device_(c10::cuda::current_device()) {
    static unsigned long long last = 0;
    // These ids start above 2^32, so that they differ from those that LibTorch's own graphs count
    // up.
    id_ = shared != nullptr ? shared->id_ : MempoolId_t{0, ++last + (1ull << 32)};
    for (Workspaces* workspaces : cublas_workspaces()) {
      const std::shared_lock lock(workspaces->mutex);
      for (const auto& [of, memory] : workspaces->map) before_.insert(memory.get());
    }
    // The allocator calls this on the allocating thread, so other threads keep their own memory.
    c10::cuda::CUDACachingAllocator::beginAllocateToPool(
        device_, id_, [recording = std::this_thread::get_id()](cudaStream_t) {
          return std::this_thread::get_id() == recording;
        });
  }
  void close() {
    if (!open_) return;
    open_ = false;
    // cuBLAS keeps a workspace for each stream. One from this pool would keep the pool from being
    // released with the graph, so it is removed from cuBLAS's map. While the graph lives, the
    // memory stays in the pool. Workspaces that existed before are kept, because graphs that others
    // recorded (NeMo's) still use them.
    for (Workspaces* workspaces : cublas_workspaces()) {
      const std::unique_lock lock(workspaces->mutex);
      std::erase_if(workspaces->map,
                    [&](const auto& entry) { return !before_.contains(entry.second.get()); });
    }
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device_, id_);
  }
  ~PrivatePool() {
    close();
    c10::cuda::CUDACachingAllocator::releasePool(device_, id_);
  }
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

 private:
  c10::DeviceIndex device_;
  MempoolId_t id_;
  std::set<const void*> before_;  // cuBLAS's workspaces when the pool was opened
  bool open_ = true;
};

/// A recording fails if another thread waits for its device. So both hold this.
std::mutex recording;
int recording_priority = 0;  // of the recording's streams; recorded kernels keep it

/// Ends a capture that an exception left open, so that the stream stays usable.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {}
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    open_ = false;
    RTFX_CUDA(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }
  ~Capture() {
    cudaGraph_t graph = nullptr;
    if (!open_) return;
    cudaStreamEndCapture(stream_, &graph);
    cudaGetLastError();  // clears the error: the present exception says more
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace

struct Graph::Executable {
  c10::cuda::CUDAStream stream;  // of the recording; LibTorch reuses memory on one stream only
  PrivatePool pool;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  explicit Executable(const Executable* shared)
      : stream(shared != nullptr ? shared->stream
                                 : c10::cuda::getStreamFromPool(recording_priority)),
        pool(shared != nullptr ? &shared->pool : nullptr) {}
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    if (exec != nullptr && !keep_executable_graphs) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

cudaStream_t GraphRecorder::stream() const { return c10::cuda::getCurrentCUDAStream().stream(); }

cudaGraphNode_t GraphRecorder::last_node() const {
  cudaStreamCaptureStatus status;
  const cudaGraphNode_t* last = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  RTFX_CUDA(cudaStreamGetCaptureInfo(stream(), &status, nullptr, nullptr, &last, &edges, &count));
  return count > 0 ? last[0] : nullptr;
}

cudaGraphConditionalHandle GraphRecorder::condition() {
  cudaGraphConditionalHandle handle = 0;
  RTFX_CUDA(cudaGraphConditionalHandleCreate(&handle, root_, 0, cudaGraphCondAssignDefault));
  return handle;
}

void GraphRecorder::while_node(cudaGraphConditionalHandle condition,
                               const std::function<void()>& body) {
  const cudaStream_t outer = stream();
  cudaStreamCaptureStatus status;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* after = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  RTFX_CUDA(cudaStreamGetCaptureInfo(outer, &status, nullptr, &graph, &after, &edges, &count));

  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = condition;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t added = nullptr;
  RTFX_CUDA(cudaGraphAddNode(&added, graph, after, edges, count, &params));
  RTFX_CUDA(cudaStreamUpdateCaptureDependencies(outer, &added, nullptr, 1,
                                                cudaStreamSetCaptureDependencies));

  const c10::cuda::CUDAStreamGuard inner(c10::cuda::getStreamFromPool(recording_priority));
  RTFX_CUDA(cudaStreamBeginCaptureToGraph(stream(), params.conditional.phGraph_out[0], nullptr,
                                          nullptr, 0, kMode));
  Capture capture(stream());
  body();
  capture.end();
}

Graph Graph::record(const std::function<void(GraphRecorder&)>& work, const Graph* shared) {
  const ScopedRange range(RangeName::record);
  const std::lock_guard alone(recording);
  recording_priority = c10::cuda::getCurrentCUDAStream().priority();
  c10::cuda::device_synchronize();
  auto executable =
      std::make_shared<Executable>(shared != nullptr ? shared->executable_.get() : nullptr);
  {
    const c10::cuda::CUDAStreamGuard guard(executable->stream);
    GraphRecorder recorder;
    const cudaStream_t stream = recorder.stream();
    RTFX_CUDA(cudaStreamBeginCapture(stream, kMode));
    Capture capture(stream);
    cudaStreamCaptureStatus status;
    RTFX_CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, &recorder.root_, nullptr, nullptr,
                                       nullptr));
    work(recorder);
    executable->graph = capture.end();
  }
  executable->pool.close();
  RTFX_CUDA(cudaGraphInstantiate(&executable->exec, executable->graph, 0));
  Graph graph;
  graph.executable_ = std::move(executable);
  return graph;
}

void release_cached_memory() {
  const std::lock_guard alone(recording);  // it waits for the device
  c10::cuda::CUDACachingAllocator::emptyCache();
}

void wait_for_device() {
  const std::lock_guard alone(recording);
  c10::cuda::device_synchronize();
}

void Graph::launch(cudaStream_t stream) const {
  RTFX_CUDA(cudaGraphLaunch(executable_->exec, stream));
}

void Graph::set_arguments(cudaGraphNode_t kernel, void** arguments) const {
  cudaKernelNodeParams params = {};
  RTFX_CUDA(cudaGraphKernelNodeGetParams(kernel, &params));
  params.kernelParams = arguments;
  RTFX_CUDA(cudaGraphExecKernelNodeSetParams(executable_->exec, kernel, &params));
}

void retry_out_of_memory(const std::function<void()>& work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError&) {
    release_cached_memory();
  }
  work();
}

std::string conditional_nodes_missing() {
  int driver = 0;
  RTFX_CUDA(cudaDriverGetVersion(&driver));
  if (driver >= kFirstDriver) return "";
  return fmt::format("the driver supports CUDA {}.{}, conditional nodes need {}.{}", driver / 1000,
                     driver % 1000 / 10, kFirstDriver / 1000, kFirstDriver % 1000 / 10);
}

}  // namespace rtfx
