// Times the overhead of a search's loops on a GPU. It times a round of a conditional node whose
// body only counts and sets its condition, and the same kernels without the node. It also times a
// wait of the host for a flag or a number. The rates are rounds/s and reads/s.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "algorithms/gpu/condition.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/host_read.h"
#include "benchmarks/microbench.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx::microbench {
namespace {

constexpr int64_t kRounds = 100;

/// Runs a graph that counts to kRounds, by a conditional node or by kRounds nodes in a row.
void rounds(benchmark::State& state, at::Device device, bool node) {
  const auto numbers = at::TensorOptions(at::kLong).device(device);
  const at::Tensor n = at::zeros({1}, numbers);
  at::Tensor below = at::zeros({1}, numbers.dtype(at::kBool));
  const auto count = [&] {
    n.add_(1);
    at::lt_out(below, n, kRounds);
  };
  const Graph graph = Graph::record([&](GraphRecorder& recorder) {
    n.zero_();
    below.fill_(true);
    if (!node) {
      for (int64_t i = 0; i < kRounds; ++i) count();
      return;
    }
    const auto again = recorder.condition();
    const auto set = [&] { set_condition(again, data_of<bool>(below), recorder.stream()); };
    set();
    recorder.while_node(again, [&] {
      count();
      set();
    });
  });
  const auto stream = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  measure(state, device, [&] { graph.launch(stream); });
  if (n.item<int64_t>() != kRounds) state.SkipWithError("the loop has not counted as it should");
  rate(state, "rounds/s", kRounds);
}

void host_read(benchmark::State& state, at::Device device, bool flags) {
  const at::Tensor active = at::zeros({128}, at::TensorOptions(at::kBool).device(device));
  const at::Tensor number = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  HostReads reads;
  measure(state, device, [&] {
    if (flags) {
      benchmark::DoNotOptimize(reads.any(active));
    } else {
      benchmark::DoNotOptimize(reads.integer(number));
    }
  });
  rate(state, "reads/s", 1);
}

}  // namespace

void add_graph_nodes() {
  const Place* const place = gpu();
  if (!place) return;
  const std::string missing = conditional_nodes_missing();
  if (!missing.empty()) fmt::print(stderr, "rtfx_microbench: no conditional nodes: {}\n", missing);
  for (const bool node : {true, false}) {
    if (node && !missing.empty()) continue;
    add(fmt::format("graph_nodes/{}/cuda/{}rounds", node ? "while_node" : "in_a_row", kRounds),
        [place, node](benchmark::State& s) { rounds(s, place->device, node); });
  }
  for (const bool flags : {true, false}) {
    add(fmt::format("host_read/{}/cuda", flags ? "any_of_128_flags" : "integer"),
        [place, flags](benchmark::State& s) { host_read(s, place->device, flags); });
  }
}

}  // namespace rtfx::microbench
