#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing_paths.h"
#include "base/error.h"
#include "base/gpu/check.h"

namespace rtfx {
namespace {

constexpr int64_t kFirstTraces = int64_t{1} << 22;
constexpr int64_t kMostTraces = std::numeric_limits<int32_t>::max();

/// The bytes of a block for each state: best, and twice state, cost and token_of.
constexpr int64_t kWorkspaceBytes = sizeof(PassingKey) + 2 * (2 * sizeof(int32_t) + sizeof(float));

int64_t free_bytes() {
  size_t free = 0, total = 0;
  RTFX_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

PassingMemory::PassingMemory(const WfstGraph& graph, const std::string& name, at::Device device)
    : graph_(graph), device_(device) {
  const GraphView& g = graph_.view();
  const int64_t needed = graph_.bytes() + 4 * g.arc_count + g.states * kWorkspaceBytes;
  if (const int64_t free = free_bytes(); needed > free) {
    throw UserError(name,
                    fmt::format("needs {:.0f} MiB on the GPU for itself and one utterance, where "
                                "{:.0f} MiB are free",
                                mib(needed), mib(free)),
                    "prune the language model, or use ctc_wfst_cpu");
  }
  const auto copy = [&](const auto* data, int64_t count) {
    const auto bytes = count * static_cast<int64_t>(sizeof(*data));
    // The source is not pinned, so the call waits for the copy.
    graph_memory_.push_back(at::from_blob(const_cast<void*>(static_cast<const void*>(data)),
                                          {bytes}, at::TensorOptions(at::kByte))
                                .to(device_));
    using Value = std::remove_reference_t<decltype(*data)>;
    return static_cast<Value*>(graph_memory_.back().const_data_ptr());
  };
  const std::vector<int32_t> sources = arc_sources(g);
  const std::vector<PassingState> states = passing_states(g);
  passing_graph_ = {g.start,
                    g.columns,
                    static_cast<int32_t>(g.emitting_arcs),
                    copy(g.arcs, g.arc_count),
                    copy(states.data(), g.states + 1),
                    copy(g.final_cost, g.states),
                    copy(sources.data(), g.arc_count)};
  device_ = graph_memory_.front().device();
  traces_ = at::empty({kFirstTraces, 2}, at::TensorOptions(at::kInt).device(device_));
}

at::Tensor PassingMemory::upload(const void* data, int64_t bytes) const {
  return at::from_blob(const_cast<void*>(data), {bytes}, at::TensorOptions(at::kByte))
      .pin_memory()
      .to(device_, /*non_blocking=*/true);
}

void PassingMemory::make_workspaces(int64_t rows) {
  const auto* device = at::cuda::getDeviceProperties(device_.index());
  const int64_t wanted = std::min<int64_t>(rows, kBlocksPerProcessor * device->multiProcessorCount);
  if (wanted <= workspaces_.workspaces) return;
  const int64_t states = graph_.view().states;
  // The encoder, the traces and others keep half of the free memory.
  const int64_t possible = free_bytes() / 2 / (states * kWorkspaceBytes);
  const auto workspaces =
      std::max<int64_t>({1, workspaces_.workspaces, std::min(wanted, possible)});
  if (workspaces == workspaces_.workspaces) return;
  for (at::Tensor* t : {&best_, &state_, &cost_, &token_of_}) t->reset();  // before the new ones
  const auto on_device = at::TensorOptions(device_);
  best_ = at::full({workspaces, states}, static_cast<int64_t>(kNoKey), on_device.dtype(at::kLong));
  state_ = at::empty({workspaces, 2, states}, on_device.dtype(at::kInt));
  cost_ = at::empty({workspaces, 2, states}, on_device.dtype(at::kFloat));
  token_of_ = at::empty({workspaces, 2, states}, on_device.dtype(at::kInt));
  workspaces_ = {static_cast<int32_t>(workspaces),
                 states,
                 static_cast<PassingKey*>(best_.mutable_data_ptr()),
                 state_.mutable_data_ptr<int32_t>(),
                 cost_.mutable_data_ptr<float>(),
                 token_of_.mutable_data_ptr<int32_t>()};
}

void PassingMemory::grow_traces(int64_t used) {
  if (traces_.size(0) == kMostTraces) {
    throw UserError("ctc_wfst", "the batch keeps more than 2^31 - 1 tokens",
                    "use a smaller batch, beam or max_active");
  }
  traces_.reset();
  // Rows without room stopped early, so `used` is a lower bound of the need.
  traces_ =
      at::empty({std::min(kMostTraces, 2 * used), 2}, at::TensorOptions(at::kInt).device(device_));
}

void PassingMemory::grow_links(int64_t used) {
  links_.reset();
  links_ = at::empty({2 * used, 4}, at::TensorOptions(at::kInt).device(device_));
}

PassingRun PassingMemory::run(PassingBatch batch, const std::vector<PassingRow>& rows,
                              HostReads& reads, const Launch& launch) const {
  const auto count = static_cast<int64_t>(rows.size());
  const auto ends_bytes = static_cast<int64_t>(sizeof(PassingEnd)) * count;
  const at::Tensor on_device =
      upload(rows.data(), static_cast<int64_t>(sizeof(PassingRow)) * count);
  // One tensor holds the ends of the rows, and behind them the counters.
  static_assert(sizeof(PassingEnd) % alignof(PassingCounters) == 0);
  const at::Tensor ends = at::zeros({ends_bytes + static_cast<int64_t>(sizeof(PassingCounters))},
                                    at::TensorOptions(at::kByte).device(device_));
  batch.rows = static_cast<const PassingRow*>(on_device.const_data_ptr());
  batch.row_count = count;
  batch.traces = static_cast<PassingTrace*>(traces_.mutable_data_ptr());
  batch.trace_capacity = traces_.size(0);
  batch.ends = static_cast<PassingEnd*>(ends.mutable_data_ptr());
  auto* counters = reinterpret_cast<PassingCounters*>(batch.ends + count);
  batch.traces_used = &counters->traces_used;
  batch.links_used = &counters->links_used;
  batch.next_row = &counters->next_row;
  if (links_.defined()) {
    batch.links = static_cast<PassingLink*>(links_.mutable_data_ptr());
    batch.link_capacity = links_.size(0);
  }
  if (launch) {
    launch(batch);
  } else {
    launch_token_passing(passing_graph_, workspaces_, batch,
                         c10::cuda::getCurrentCUDAStream(device_.index()).stream());
  }
  const at::Tensor host = reads.values(ends);
  PassingRun run{std::vector<PassingEnd>(rows.size())};
  const auto* bytes = static_cast<const char*>(host.const_data_ptr());
  std::memcpy(run.ends.data(), bytes, static_cast<size_t>(ends_bytes));
  PassingCounters used{};
  std::memcpy(&used, bytes + ends_bytes, sizeof(used));
  run.traces_used = static_cast<int64_t>(used.traces_used);
  run.links_used = static_cast<int64_t>(used.links_used);
  return run;
}

}  // namespace rtfx
