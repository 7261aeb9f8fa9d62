// Tests the layer algorithms/gpu by itself: which bodies of a recorded graph run, and how often.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <set>

#include "algorithms/gpu/condition.h"
#include "algorithms/gpu/graph.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

class GraphNodesGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    if (const std::string missing = conditional_nodes_missing(); !missing.empty())
      GTEST_SKIP() << missing;
  }
  static at::Tensor integer(int64_t value) {
    return at::full({1}, value, at::TensorOptions(at::kLong).device(at::kCUDA));
  }
  static at::Tensor flag() { return integer(0).to(at::kBool); }
  static void set(GraphRecorder& recorder, cudaGraphConditionalHandle condition,
                  const at::Tensor& flag) {
    set_condition(condition, data_of<bool>(flag), recorder.stream());
  }

  c10::InferenceMode guard_;
};

TEST_F(GraphNodesGpu, BodiesRunWhileTheirConditionsHold) {
  const at::Tensor n = integer(0), limit = integer(0), inner = integer(0), below = flag(),
                   left = flag(), rest = integer(0);
  const Graph graph = Graph::record([&](GraphRecorder& recorder) {
    const auto again = recorder.condition(), until_none = recorder.condition();
    for (const at::Tensor& t : {n, inner}) t.zero_();
    below.copy_(n.lt(limit));
    set(recorder, again, below);
    recorder.while_node(again, [&] {
      rest.copy_(n);  // the rounds of the inner loop, which are none at first
      left.copy_(rest.gt(0));
      set(recorder, until_none, left);
      recorder.while_node(until_none, [&] {
        inner.add_(1);
        rest.sub_(1);
        left.copy_(rest.gt(0));
        set(recorder, until_none, left);
      });
      n.add_(1);
      below.copy_(n.lt(limit));
      set(recorder, again, below);
    });
  });
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  for (const int64_t rounds : {5, 0, 1, 8}) {
    limit.fill_(rounds);
    graph.launch(stream);
    EXPECT_EQ(n.item<int64_t>(), rounds);
    EXPECT_EQ(inner.item<int64_t>(), rounds * (rounds - 1) / 2) << "0 + 1 + ... for " << rounds;
  }
}

TEST_F(GraphNodesGpu, AFailedRecordingHarmsNothingAfterIt) {
  EXPECT_THROW(Graph::record([](GraphRecorder& recorder) {
                 recorder.condition();  // gets no node
                 integer(1);
               }),
               std::runtime_error);
  const at::Tensor n = integer(1);
  const Graph graph = Graph::record([&](GraphRecorder&) { n.add_(1); });
  graph.launch(c10::cuda::getCurrentCUDAStream().stream());
  EXPECT_EQ(n.item<int64_t>(), 2);
}

/// Runs work that needs `bytes` of memory for a moment.
void needs(int64_t bytes) {
  at::empty({bytes}, at::TensorOptions(at::kByte).device(at::kCUDA)).zero_();
}
int64_t reserved_bytes() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
}

TEST_F(GraphNodesGpu, GraphsThatShareMemoryNeedNoMoreThanOne) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const auto work = [](GraphRecorder&) { needs(kBytes); };
  const Graph first = Graph::record(work);
  const int64_t before = reserved_bytes();
  std::vector<Graph> others;
  for (int i = 0; i < 40; ++i) others.push_back(Graph::record(work, &first));
  EXPECT_EQ(reserved_bytes(), before);
}

/// CUDA graphs that others have recorded, such as NeMo's, hold the address of cuBLAS's workspace.
TEST_F(GraphNodesGpu, CublasMemoryFromBeforeARecordingStays) {
  const at::Tensor a = at::ones({64, 64}, at::TensorOptions(at::kBFloat16).device(at::kCUDA));
  const auto workspaces = [] {
    std::set<const void*> found;
    for (const auto& [of, memory] : at::cuda::cublas_handle_stream_to_workspace().map)
      found.insert(memory.get());
    return found;
  };
  at::mm(a, a);
  const std::set<const void*> before = workspaces();
  ASSERT_FALSE(before.empty());
  const Graph graph = Graph::record([&](GraphRecorder&) { at::mm(a, a); });
  EXPECT_EQ(workspaces(), before);  // the recording's own went back to its pool
}

TEST_F(GraphNodesGpu, ARecordingGetsTheMemoryThatLibTorchKeepsForLater) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  constexpr int64_t kBytes = int64_t{1} << 30;
  allocator::emptyCache();
  needs(kBytes);
  const double total = static_cast<double>(at::cuda::getDeviceProperties(0)->totalGlobalMem);
  allocator::setMemoryFraction(static_cast<double>(reserved_bytes() + kBytes / 2) / total, 0);
  Graph graph;
  const auto record = [&] { graph = Graph::record([](GraphRecorder&) { needs(kBytes); }); };
  EXPECT_THROW(record(), c10::OutOfMemoryError);
  EXPECT_NO_THROW(retry_out_of_memory(record));
  allocator::setMemoryFraction(1, 0);
  EXPECT_TRUE(graph);
}

}  // namespace
}  // namespace rtfx
