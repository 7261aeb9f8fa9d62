#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
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
  workspaces_ = {};  // stays so if an allocation below fails
  for (at::Tensor* t : {&best_, &state_, &cost_, &token_of_}) t->reset();  // frees the old memory
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
  const auto on_device = at::TensorOptions(at::kInt).device(device_);
  const int64_t before = traces_.size(0);
  traces_.reset();
  try {
    // Rows without room stopped early, so `used` is a lower bound of the need.
    traces_ = at::empty({std::min(kMostTraces, 2 * used), 2}, on_device);
  } catch (const c10::OutOfMemoryError&) {
    traces_ = at::empty({before, 2}, on_device);  // for smaller batches
    throw;
  }
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

std::vector<int32_t> arc_sources(const GraphView& graph) {
  std::vector<int32_t> source(static_cast<size_t>(graph.arc_count));
  for (const int32_t* begin : {graph.emitting_begin, graph.nonemitting_begin})
    for (int32_t s = 0; s < graph.states; ++s)
      for (int32_t a = begin[s]; a < begin[s + 1]; ++a) source[static_cast<size_t>(a)] = s;
  return source;
}

std::vector<PassingState> passing_states(const GraphView& graph) {
  std::vector<PassingState> states;
  for (int32_t s = 0; s <= graph.states; ++s)
    states.push_back({graph.emitting_begin[s], graph.nonemitting_begin[s]});
  return states;
}

PassingLattice passing_lattice(std::span<const PassingLink> links, int64_t traces, int64_t rows,
                               float beam) {
  PassingLattice all;
  all.lattice.beam = beam;
  all.ends.resize(static_cast<size_t>(rows));
  std::vector<WfstLattice::Link> into;
  std::vector<PassingLink> to_end;
  for (const PassingLink& link : links) {
    if (link.to < 0) {
      to_end.push_back(link);
    } else {
      into.push_back({link.to, link.from, link.arc, link.slack});
    }
  }
  all.lattice.add_tokens(traces, into);
  std::sort(to_end.begin(), to_end.end(), [](const PassingLink& a, const PassingLink& b) {
    return std::tie(a.slack, a.arc) < std::tie(b.slack, b.arc);
  });
  for (const PassingLink& link : to_end)
    all.ends[static_cast<size_t>(-1 - link.to)].push_back({link.from, link.slack});
  return all;
}

int64_t longest_path(const GraphView& graph, int64_t frames) {
  return (frames + 1) * (1 + int64_t{graph.longest_nonemitting});
}

PassingBest best_token(const PassingEnd& end, bool at_end) {
  return at_end && end.best_final.token >= 0 ? end.best_final : end.best_open;
}

std::vector<int32_t> path_arcs(const PassingTrace* traces, const PassingEnd& end, bool at_end) {
  std::vector<int32_t> arcs;
  const PassingBest best = best_token(end, at_end);
  if (best.token < 0) return arcs;
  for (int32_t i = end.first_trace + best.token; i >= 0; i = traces[i].previous)
    if (traces[i].arc >= 0) arcs.push_back(traces[i].arc);
  std::reverse(arcs.begin(), arcs.end());
  return arcs;
}

WfstPath passing_path(const GraphView& graph, const PassingEnd& end, bool at_end,
                      std::span<const int32_t> arcs) {
  WfstPath path;
  path.alive = end.status == PassingStatus::final || end.status == PassingStatus::open;
  if (!path.alive) return path;
  path.reached_final = at_end && end.best_final.token >= 0;
  path.cost = end.offset + best_token(end, at_end).cost;
  read_path(graph, arcs, path);
  return path;
}

namespace {

constexpr size_t kTracesToKeep = 1 << 12;  // fewer are not worth looking through

}  // namespace

void PieceHistory::append(const PassingEnd& end, const PassingTrace* traces,
                          std::span<int32_t> positions) {
  std::vector<int32_t> token_traces(static_cast<size_t>(end.tokens));
  for (int32_t token = 0; token < end.tokens; ++token) {
    // Go back to a trace that is stored already, then add the chain from there.
    chain_.clear();
    int32_t i = end.first_trace + token;
    while (i >= 0 && positions[static_cast<size_t>(i)] == kNoPosition) {
      chain_.push_back(i);
      i = traces[i].previous;
    }
    int32_t last = -1;
    if (i >= 0) {
      last = positions[static_cast<size_t>(i)];
    } else if (i < -1) {
      last = token_traces_[static_cast<size_t>(i - kPieceBefore)];
    }
    for (auto next = chain_.rbegin(); next != chain_.rend(); ++next) {
      traces_.push_back({traces[*next].arc, last});
      last = static_cast<int32_t>(traces_.size()) - 1;
      positions[static_cast<size_t>(*next)] = last;
    }
    token_traces[static_cast<size_t>(token)] = last;
  }
  token_traces_ = std::move(token_traces);
  end_ = end;
  begun_ = true;
  if (traces_.size() > std::max(2 * kept_traces_, kTracesToKeep)) drop_unused_traces();
}

void PieceHistory::drop_unused_traces() {
  constexpr int32_t kUnused = -1, kUsed = 0;
  moved_.assign(traces_.size(), kUnused);
  for (const int32_t i : token_traces_) moved_[static_cast<size_t>(i)] = kUsed;
  for (size_t i = traces_.size(); i-- > 0;) {
    const int32_t previous = traces_[i].previous;
    if (moved_[i] == kUsed && previous >= 0) moved_[static_cast<size_t>(previous)] = kUsed;
  }
  size_t kept = 0;
  for (size_t i = 0; i < traces_.size(); ++i) {
    if (moved_[i] == kUnused) continue;
    auto [arc, previous] = traces_[i];
    if (previous >= 0) previous = moved_[static_cast<size_t>(previous)];
    moved_[i] = static_cast<int32_t>(kept);
    traces_[kept++] = {arc, previous};
  }
  traces_.resize(kept);
  for (int32_t& i : token_traces_) i = moved_[static_cast<size_t>(i)];
  kept_traces_ = kept;
}

WfstPath PieceHistory::best_path(const GraphView& graph, bool at_end) const {
  std::vector<int32_t> arcs;
  const PassingBest best = best_token(end_, at_end);
  if (best.token >= 0) {
    for (int32_t i = token_traces_[static_cast<size_t>(best.token)]; i >= 0;
         i = traces_[static_cast<size_t>(i)].previous) {
      const int32_t arc = traces_[static_cast<size_t>(i)].arc;
      if (arc >= 0) arcs.push_back(arc);
    }
  }
  std::reverse(arcs.begin(), arcs.end());
  return passing_path(graph, end_, at_end, arcs);
}

PassingRow PieceHistory::next_row() const {
  PassingRow row;
  if (begun_) {
    row.tokens = end_.tokens;
    row.offset = end_.offset;
  }
  return row;
}

}  // namespace rtfx
