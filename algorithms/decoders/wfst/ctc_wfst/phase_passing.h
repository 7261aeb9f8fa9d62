// Token passing with a kernel for each phase of a frame: all rows of a batch, as far as there are
// workspaces, go through their frames together. What lies between two kernels is PassingProgress.
// No LibTorch here: the kernels' source includes it.
#pragma once

#include "algorithms/decoders/wfst/ctc_wfst/token_passing.h"

namespace rtfx {

/// A thread's part in its block's work on one row. Block: as in token_passing.h.
template <class Block>
class PhasePassing {
 public:
  using Shared = PassingShared<Block::kMostThreads>;

  RTFX_DEVICE PhasePassing(Block& block, const PassingGraph& graph,
                           const PassingWorkspace& workspace, const PassingBatch& batch,
                           Shared& shared, PassingProgress& progress)
      : block_(block),
        graph_(graph),
        workspace_(workspace),
        batch_(batch),
        shared_(shared),
        progress_(progress),
        passing_(block, graph, workspace, batch, shared) {}

  /// Begins row `n`, if the batch has it.
  RTFX_DEVICE void begin(int64_t n) {
    PassingProgress begun{};
    begun.row = n < batch_.row_count ? static_cast<int32_t>(n) : -1;
    if (begun.row >= 0) {
      const PassingRow& row = batch_.rows[n];
      PassingTokens now = workspace_.tokens[1];
      passing_.use(row);
      begun.room = passing_.begin(row, workspace_.tokens[0], now) ? 1 : 0;
      begun.count[1] = now.count;
      begun.first_trace[1] = now.first_trace;
      begun.frame = shared_.frame;
    }
    if (block_.thread() == 0) progress_ = begun;
  }

  /// A phase between `begin` and `finish`, of the row's next frame. Nothing where no frame is left,
  /// or no token, or no room.
  template <PassingPhase kPhase>
  RTFX_DEVICE void frame_phase() {
    const PassingProgress before = load();
    if (before.row < 0) return;
    const PassingRow& row = batch_.rows[before.row];
    const PassingTokens last = tokens(before, 1);
    PassingTokens now = tokens(before, 0);
    if (before.room == 0 || last.count == 0 || before.searched >= row.frames) return;
    const float* lp = row.lp + int64_t{before.searched} * graph_.columns;
    passing_.use(row);
    const bool writes = block_.thread() == 0;
    if constexpr (kPhase == PassingPhase::choose) {
      const float cutoff = passing_.choose(last);
      if (writes) progress_.cutoff = cutoff;
    } else if constexpr (kPhase == PassingPhase::bound) {
      passing_.use_arcs(last, before.cutoff, lp);
      typename TokenPassing<Block>::Held held{};
      int32_t visits = 0;
      const float cut = passing_.find_cut(held, visits);
      if (writes) progress_.cut = cut;
    } else if constexpr (kPhase == PassingPhase::expand) {
      passing_.use_arcs(last, before.cutoff, lp);
      typename TokenPassing<Block>::Held held{};
      passing_.reach_all(now, held, before.cut);
    } else if constexpr (kPhase == PassingPhase::follow) {
      passing_.follow_nonemitting(now, before.cut);
    } else if constexpr (kPhase == PassingPhase::take) {
      passing_.take_traces(now);
      if (writes) {
        progress_.count[before.searched % 2] = now.count;
        progress_.first_trace[before.searched % 2] = now.first_trace;
      }
    } else if constexpr (kPhase == PassingPhase::link) {
      passing_.use_arcs(last, before.cutoff, lp);
      passing_.add_links(last, now, before.cut);
    } else {
      static_assert(kPhase == PassingPhase::keep);
      const bool room = passing_.keep(last, now);
      if (writes) {
        progress_.room = room ? 1 : 0;
        progress_.searched = before.searched + 1;
      }
    }
    block_.sync();  // what the threads changed of the frame is complete
    if (writes) progress_.frame = shared_.frame;
  }

  RTFX_DEVICE void finish() {
    const PassingProgress end = load();
    if (end.row < 0) return;
    const PassingRow& row = batch_.rows[end.row];
    passing_.use(row);
    passing_.finish(end.row, row, tokens(end, 1), end.room != 0);
  }

 private:
  /// For all threads: none changes the progress before all have read it.
  RTFX_DEVICE PassingProgress load() {
    const PassingProgress progress = progress_;
    if (block_.thread() == 0) {
      shared_.frame = progress.frame;
      shared_.lowered_count[0] = 0;
    }
    block_.sync();
    return progress;
  }

  /// Of the frame that is being searched (0), or of the one before (1).
  RTFX_DEVICE PassingTokens tokens(const PassingProgress& progress, int32_t before) const {
    const bool second = (progress.searched + before) % 2 == 1;
    PassingTokens tokens = second ? workspace_.tokens[1] : workspace_.tokens[0];
    tokens.count = second ? progress.count[1] : progress.count[0];
    tokens.first_trace = second ? progress.first_trace[1] : progress.first_trace[0];
    return tokens;
  }

  Block& block_;
  const PassingGraph& graph_;
  const PassingWorkspace& workspace_;
  const PassingBatch& batch_;
  Shared& shared_;
  PassingProgress& progress_;
  TokenPassing<Block> passing_;
};

}  // namespace rtfx
