// Token passing (algorithms/decoders/wfst/ctc_wfst/token_passing.h) by threads of the CPU instead
// of a GPU's.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/ctc_wfst.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/decoders/wfst/ctc_wfst/token_passing.h"
#include "tests/support/threaded_block.h"

namespace rtfx::test {

class HostBlock : public ThreadedBlock {
 public:
  static constexpr int32_t kMostThreads = 4;
  static constexpr int32_t kHeld = 4;
  using ThreadedBlock::ThreadedBlock;

  void copy(float* to, const float* from, int32_t count) const {
    for (int32_t i = thread(); i < count; i += threads()) to[i] = from[i];
  }
  void copied() const {}

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
};

/// The workspaces of a graph, and blocks of CPU threads that search rows in them.
class HostWorkspaces {
 public:
  /// Makes `workspaces` blocks of `threads` threads each, at most HostBlock::kMostThreads. Every
  /// second block has a buffer for the log-probabilities of frames.
  HostWorkspaces(const GraphView& view, int32_t workspaces, int32_t threads)
      : source_(arc_sources(view)),
        states_(passing_states(view)),
        workspaces_(workspaces),
        threads_(threads) {
    graph_ = {view.start,    view.columns,   static_cast<int32_t>(view.emitting_arcs),
              view.arcs,     states_.data(), view.final_cost,
              source_.data()};
    const auto positions = static_cast<size_t>(int64_t{workspaces} * view.states);
    best_.assign(positions, kNoKey);
    state_.resize(2 * positions);
    token_of_.resize(2 * positions);
    cost_.resize(2 * positions);
    memory_ = {workspaces,    view.states,  best_.data(),
               state_.data(), cost_.data(), token_of_.data()};
  }

  /// Runs the search with all phases in one kernel. Sets the rows, ends and counters of the batch,
  /// and returns the number of traces used.
  int64_t run(PassingBatch batch, const std::vector<PassingRow>& rows,
              std::vector<PassingEnd>& ends, unsigned long long* links_used = nullptr) {
    Counted counted(batch, rows, ends, links_used);
    std::vector<std::vector<float>> frames(static_cast<size_t>(workspaces_),
                                           std::vector<float>(2 * graph_.columns));
    kernel([&](HostBlock& block, int32_t i, const PassingWorkspace& workspace, Shared& shared) {
      float* own = i % 2 == 0 ? frames[static_cast<size_t>(i)].data() : nullptr;
      RowPassing(block, graph_, workspace, batch, shared, own).run();
    });
    return static_cast<int64_t>(counted.traces_used);
  }

  /// Runs the search with a kernel for each phase. `history` receives the traces that
  /// search_steps() collects. Returns the number of traces that were used.
  int64_t run_phases(PassingBatch batch, const std::vector<PassingRow>& rows,
                     std::vector<PassingEnd>& ends, bool double_buffer,
                     std::vector<PassingTrace>& history, unsigned long long* links_used = nullptr) {
    Counted counted(batch, rows, ends, links_used);
    progress_.resize(static_cast<size_t>(workspaces_));
    history.clear();
    for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(workspaces_)) {
      Steps steps{*this, batch, static_cast<int64_t>(first), history};
      int64_t frames = 0;
      for (size_t n = first; n < std::min(rows.size(), first + progress_.size()); ++n)
        frames = std::max<int64_t>(frames, rows[n].frames);
      search_steps(steps, 1 + frames, double_buffer);
      phase(batch, [](auto& passing, int32_t) { passing.finish(); });
    }
    return static_cast<int64_t>(counted.traces_used);
  }

  /// Returns whether the workspaces are ready for the next batch.
  bool clean() const {
    return std::all_of(best_.begin(), best_.end(), [](PassingKey k) { return k == kNoKey; });
  }

 private:
  using Shared = PassingShared<HostBlock::kMostThreads>;

  /// Connects a batch with its rows and ends, and owns its counters.
  struct Counted {
    Counted(PassingBatch& batch, const std::vector<PassingRow>& rows, std::vector<PassingEnd>& ends,
            unsigned long long* links_used) {
      ends.resize(rows.size());
      batch.rows = rows.data();
      batch.row_count = static_cast<int64_t>(rows.size());
      batch.ends = ends.data();
      batch.traces_used = &traces_used;
      batch.links_used = links_used;
      batch.next_row = &next_row;
    }
    unsigned long long traces_used = 0;
    int32_t next_row = 0;
  };

  /// Calls work(block, workspace's number, workspace, shared memory) in all threads of all blocks.
  template <class Work>
  void kernel(const Work& work) const {
    const auto workspaces = static_cast<size_t>(workspaces_);
    std::vector<Shared> shared(workspaces);
    std::deque<ThreadedBlock::Shared> blocks;
    for (size_t workspace = 0; workspace < workspaces; ++workspace) blocks.emplace_back(threads_);
    std::vector<std::jthread> running;
    for (int32_t i = 0; i < workspaces_ * threads_; ++i) {
      running.emplace_back([&, i] {
        const int32_t workspace = i / threads_;
        HostBlock block(blocks[static_cast<size_t>(workspace)], i % threads_);
        work(block, workspace, memory_.workspace(workspace),
             shared[static_cast<size_t>(workspace)]);
      });
    }
  }

  /// Calls work(PhasePassing, workspace's number) as a kernel.
  template <class Work>
  void phase(const PassingBatch& batch, const Work& work) {
    kernel([&](HostBlock& block, int32_t i, const PassingWorkspace& workspace, Shared& shared) {
      PhasePassing passing(block, graph_, workspace, batch, shared,
                           progress_[static_cast<size_t>(i)]);
      work(passing, i);
    });
  }

  struct Steps {
    HostWorkspaces& memory;
    const PassingBatch& batch;
    int64_t first_row;
    std::vector<PassingTrace>& history;
    unsigned long long used[2] = {};

    template <PassingPhase kPhase>
    void frame_phase() {
      memory.phase(batch, [](auto& passing, int32_t) { passing.template frame_phase<kPhase>(); });
    }
    void search(int64_t step) {
      if (step == 0) {
        memory.phase(batch, [&](auto& passing, int32_t i) { passing.begin(first_row + i); });
      } else {
        frame_phase<PassingPhase::choose>();
        frame_phase<PassingPhase::bound>();
        frame_phase<PassingPhase::expand>();
        frame_phase<PassingPhase::follow>();
        frame_phase<PassingPhase::reserve>();
        if (batch.lattice_beam >= 0) frame_phase<PassingPhase::link>();
        frame_phase<PassingPhase::keep>();
      }
      used[step % 2] = *batch.traces_used;
    }
    void collect(int64_t step) {
      const auto end = std::min(static_cast<int64_t>(used[step % 2]), batch.trace_capacity);
      history.insert(history.end(), batch.traces + history.size(), batch.traces + end);
    }
    void wait() {}
  };

  std::vector<int32_t> source_;
  std::vector<PassingState> states_;
  int32_t workspaces_, threads_;
  PassingGraph graph_;
  std::vector<PassingKey> best_;
  std::vector<int32_t> state_, token_of_;
  std::vector<float> cost_;
  PassingWorkspaces memory_;
  std::vector<PassingProgress> progress_;
};

/// The owner of the loop over frames: one kernel, or the host, which runs a kernel for each phase
/// and collects the history.
enum class PassingForm { one_kernel, phases, double_buffered_phases };

struct HostPassing {
  std::vector<WfstPath> paths;
  std::vector<PassingStatus> status;
  int64_t traces_used = 0;
  bool clean = false;  // the workspaces are ready for the next batch
};

/// Searches rows of `frames` frames each, of which the first lengths[row] count, in `workspaces`
/// blocks of `threads` threads. `word_costs` holds no vector, one for all rows, or one for each
/// row.
inline HostPassing pass_tokens(const GraphView& view, const std::vector<float>& lp, int64_t frames,
                               const std::vector<int64_t>& lengths, float beam, int64_t max_active,
                               int32_t workspaces, int32_t threads, int64_t trace_capacity,
                               const std::vector<std::vector<float>>& word_costs = {},
                               PassingForm form = PassingForm::one_kernel) {
  std::vector<PassingRow> rows;
  for (size_t b = 0; b < lengths.size(); ++b) {
    PassingRow row;
    row.lp = lp.data() + static_cast<int64_t>(b) * frames * view.columns;
    row.frames = static_cast<int32_t>(lengths[b]);
    if (!word_costs.empty()) {
      const std::vector<float>& costs = word_costs[word_costs.size() == 1 ? 0 : b];
      row.word_costs = costs.empty() ? nullptr : costs.data();
    }
    rows.push_back(row);
  }
  std::vector<PassingTrace> traces(static_cast<size_t>(trace_capacity));
  const int64_t path_capacity = longest_path(view, frames);
  std::vector<int32_t> arcs(rows.size() * static_cast<size_t>(path_capacity));
  PassingBatch batch;
  batch.beam = beam;
  batch.max_active = max_active;
  batch.traces = traces.data();
  batch.trace_capacity = trace_capacity;

  HostPassing result;
  HostWorkspaces memory(view, workspaces, threads);
  std::vector<PassingEnd> ends;
  std::vector<PassingTrace> history;
  if (form == PassingForm::one_kernel) {
    batch.path_arcs = arcs.data();
    batch.path_capacity = path_capacity;
    result.traces_used = memory.run(batch, rows, ends);
  } else {
    const bool double_buffer = form == PassingForm::double_buffered_phases;
    result.traces_used = memory.run_phases(batch, rows, ends, double_buffer, history);
  }
  result.clean = memory.clean();
  for (size_t b = 0; b < rows.size(); ++b) {
    result.status.push_back(ends[b].status);
    if (form != PassingForm::one_kernel) {
      result.paths.push_back(
          passing_path(view, ends[b], true, path_arcs(history.data(), ends[b], true)));
      continue;
    }
    const auto own = static_cast<size_t>(ends[b].arcs);
    const int32_t* last = arcs.data() + (b + 1) * static_cast<size_t>(path_capacity);
    result.paths.push_back(passing_path(view, ends[b], true, {last - own, own}));
  }
  return result;
}

}  // namespace rtfx::test
