// Token passing with all phases in one kernel: a block of threads searches rows one after the
// other, each from its first frame to its last. No LibTorch here: the kernel's source includes it.
#pragma once

#include "algorithms/decoders/wfst/ctc_wfst/token_passing.h"

namespace rtfx {

/// A thread's part in its block's work. Block: as in token_passing.h.
template <class Block>
class RowPassing {
 public:
  using Shared = PassingShared<Block::kMostThreads>;

  /// `frames`: room for 2 * columns floats that is quicker to read than the rows; or null.
  RTFX_DEVICE RowPassing(Block& block, const PassingGraph& graph, const PassingWorkspace& workspace,
                         const PassingBatch& batch, Shared& shared, float* frames)
      : block_(block),
        graph_(graph),
        workspace_(workspace),
        batch_(batch),
        shared_(shared),
        frames_(frames),
        passing_(block, graph, workspace, batch, shared) {}

  /// Rows, as long as there are any.
  RTFX_DEVICE void run() {
    for (;;) {
      if (block_.thread() == 0) shared_.row = Block::add(batch_.next_row, 1);
      block_.sync();
      const int32_t n = shared_.row;
      block_.sync();
      if (n >= batch_.row_count) return;
      search(n, batch_.rows[n]);
    }
  }

 private:
  RTFX_DEVICE void search(int64_t n, const PassingRow& row) {
    passing_.use(row);
    PassingTokens last = workspace_.tokens[0], now = workspace_.tokens[1];
    if (frames_ != nullptr && row.frames > 0) block_.copy(frames_, row.lp, graph_.columns);
    bool room = passing_.begin(row, last, now);
    for (int32_t t = 0; room && now.count > 0 && t < row.frames; ++t) {
      const PassingTokens swapped = last;
      last = now;
      now = swapped;
      const float cut = passing_.expand(last, now, frame(row, t));
      room = passing_.finish_frame(last, now, cut);
    }
    block_.copied();  // of a frame that was not searched any more
    passing_.finish(n, row, now, room);
  }

  /// Log-probabilities of a frame; sends for those of the next. They may be read after a sync().
  RTFX_DEVICE const float* frame(const PassingRow& row, int32_t t) {
    const float* lp = row.lp + int64_t{t} * graph_.columns;
    if (frames_ == nullptr) return lp;
    block_.copied();
    if (t + 1 < row.frames)
      block_.copy(frames_ + (t + 1) % 2 * graph_.columns, lp + graph_.columns, graph_.columns);
    return frames_ + t % 2 * graph_.columns;
  }

  Block& block_;
  const PassingGraph& graph_;
  const PassingWorkspace& workspace_;
  const PassingBatch& batch_;
  Shared& shared_;
  float* frames_;
  TokenPassing<Block> passing_;
};

}  // namespace rtfx
