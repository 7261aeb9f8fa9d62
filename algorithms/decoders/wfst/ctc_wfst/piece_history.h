// The paths of an utterance that is searched on a GPU in pieces. Between pieces the GPU keeps the
// tokens alone; what led to them is kept here, on the host.
#pragma once

#include <span>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

/// Holds what the last tokens' paths need, and drops the rest now and then, so that an endless
/// stream needs the memory of its tokens and of one path.
class PieceHistory {
 public:
  static constexpr int32_t kNoPlace = -1;

  /// Adds a piece that ended with `end`. `traces` are those of the whole batch, the piece's among
  /// them. `places` has a number for each of them: kNoPlace in all before the first piece of the
  /// batch is added. This call writes those of its own piece's traces alone, so that several
  /// threads can add pieces of a batch at a time.
  void append(const PassingEnd& end, const PassingTrace* traces, std::span<int32_t> places);

  /// The best path, as if the frames so far were all (`at_end`) or as if more came. Not alive
  /// before the first piece.
  WfstPath best_path(const GraphView& graph, bool at_end) const;

  /// Whether a piece was appended.
  bool begun() const { return begun_; }

  /// The next piece of the utterance, but for its frames and where they are.
  PassingRow next_row() const;

  size_t size() const { return traces_.size(); }  // traces that are held

 private:
  void drop_unused_traces();

  std::vector<PassingTrace> traces_;    // each behind the one before it
  std::vector<int32_t> token_traces_;   // of each token of the last frame, its index in traces_
  std::vector<int32_t> chain_, moved_;  // scratch
  size_t kept_traces_ = 0;              // how many were left when some were dropped the last time
  PassingEnd end_{0, {0, -1}, {0, -1}, 0, 0, 0, PassingStatus::dead};
  bool begun_ = false;
};

}  // namespace rtfx
