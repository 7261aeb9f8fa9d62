// Token passing (algorithms/ctc_wfst/token_passing.h) by threads of the CPU in place of a GPU's.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "algorithms/ctc_wfst/passing_paths.h"
#include "algorithms/ctc_wfst/token_passing.h"

namespace rtfx::test {

class HostBlock {
 public:
  static constexpr int32_t kGroup = 2;

  HostBlock(std::barrier<>& barrier, int32_t thread, int32_t threads)
      : barrier_(barrier), thread_(thread), threads_(threads) {}

  int32_t thread() const { return thread_; }
  int32_t threads() const { return threads_; }
  void sync() const { barrier_.arrive_and_wait(); }
  uint32_t least_of_group(uint32_t value) const { return value; }

  template <class T>
  static T minimum(T* place, T value) {
    const std::atomic_ref<T> atomic(*place);
    T before = atomic.load();
    while (value < before && !atomic.compare_exchange_weak(before, value)) {
    }
    return before;
  }
  template <class T>
  static T add(T* place, T value) {
    return std::atomic_ref<T>(*place).fetch_add(value);
  }
  static PassingKey load(const PassingKey* place) {
    return std::atomic_ref<PassingKey>(*const_cast<PassingKey*>(place)).load();
  }

 private:
  std::barrier<>& barrier_;
  int32_t thread_, threads_;
};

struct HostPassing {
  std::vector<WfstPath> paths;
  std::vector<PassingStatus> status;
  int64_t traces_used = 0;
  bool clean = false;  // the lanes were left as they must be for the next batch
};

/// Searches rows of `frames` frames each, of which lengths[row] count, by `lanes` blocks of
/// `threads` threads (an even number).
inline HostPassing pass_tokens(const GraphView& view, const std::vector<float>& lp, int64_t frames,
                               const std::vector<int64_t>& lengths, float beam, int64_t max_active,
                               int32_t lanes, int32_t threads, int64_t trace_capacity,
                               const std::vector<float>& word_costs = {}) {
  const auto rows = static_cast<int64_t>(lengths.size());
  const std::vector<int32_t> source = arc_sources(view);
  const PassingGraph graph{view.start,          view.columns,           view.arcs,
                           view.emitting_begin, view.nonemitting_begin, view.final_cost,
                           source.data()};
  const auto places = static_cast<size_t>(int64_t{lanes} * view.states);
  std::vector<PassingKey> best(places, kNoKey);
  std::vector<int32_t> state(2 * places), slot(2 * places);
  std::vector<float> cost(2 * places);
  const PassingLanes memory{lanes,        view.states, best.data(),
                            state.data(), cost.data(), slot.data()};

  std::vector<int32_t> order(lengths.size());
  for (int64_t b = 0; b < rows; ++b) order[static_cast<size_t>(b)] = static_cast<int32_t>(b);
  std::vector<PassingTrace> traces(static_cast<size_t>(trace_capacity));
  unsigned long long used = 0;
  int32_t next_row = 0;
  const int64_t path_capacity = longest_path(view, frames);
  std::vector<int32_t> arcs(static_cast<size_t>(rows * path_capacity));
  std::vector<PassingEnd> ends(lengths.size());
  const PassingBatch batch{
      lp.data(),      rows,          frames,
      lengths.data(), order.data(),  word_costs.empty() ? nullptr : word_costs.data(),
      beam,           max_active,    traces.data(),
      trace_capacity, &used,         &next_row,
      arcs.data(),    path_capacity, ends.data()};

  std::vector<PassingShared> shared(static_cast<size_t>(lanes));
  std::vector<std::unique_ptr<std::barrier<>>> barriers;
  for (int32_t lane = 0; lane < lanes; ++lane)
    barriers.push_back(std::make_unique<std::barrier<>>(threads));
  {
    std::vector<std::jthread> running;
    for (int32_t i = 0; i < lanes * threads; ++i) {
      running.emplace_back([&, i] {
        const auto lane = static_cast<size_t>(i / threads);
        HostBlock block(*barriers[lane], i % threads, threads);
        const PassingLane own = memory.lane(i / threads);
        TokenPassing<HostBlock>(block, graph, own, batch, shared[lane]).run();
      });
    }
  }

  HostPassing result;
  for (int64_t b = 0; b < rows; ++b) {
    const PassingEnd& end = ends[static_cast<size_t>(b)];
    const int32_t* last = arcs.data() + (b + 1) * path_capacity;
    result.paths.push_back(passing_path(view, end, last));
    result.status.push_back(end.status);
  }
  result.traces_used = static_cast<int64_t>(used);
  result.clean = std::all_of(best.begin(), best.end(), [](PassingKey k) { return k == kNoKey; });
  return result;
}

}  // namespace rtfx::test
