#include "algorithms/shared/beams/beam_pieces.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {
namespace {

/// The walk along the hypotheses of a piece, on the host.
struct PieceTree {
  at::Tensor labels, parents, durations;  // [C, B, K] int32
  at::Tensor last_label, time;            // [B, K] int64, before the piece
  int64_t blank;
  bool ctc;

  RowPiece::Slot follow(int64_t b, int64_t slot) const {
    const auto at_slot = [&](const at::Tensor& tree, int64_t c, int64_t k) {
      return tree.const_data_ptr<int32_t>()[(c * tree.size(1) + b) * tree.size(2) + k];
    };
    std::vector<int64_t> path(static_cast<size_t>(labels.size(0)));  // slots, by column
    RowPiece::Slot result;
    int64_t origin = slot;
    for (int64_t c = labels.size(0); c-- > 0;) {
      path[static_cast<size_t>(c)] = origin;
      origin = at_slot(parents, c, origin);
    }
    result.origin = static_cast<size_t>(origin);
    const auto before = [&](const at::Tensor& values) {
      return values.const_data_ptr<int64_t>()[b * values.size(1) + origin];
    };
    int64_t last = before(last_label), frame = before(time);
    Hypothesis& added = result.added;
    for (int64_t c = 0; c < labels.size(0); ++c) {
      const int32_t label = at_slot(labels, c, path[static_cast<size_t>(c)]);
      if (label < 0) continue;
      const bool tdt = durations.defined();
      const int32_t duration = tdt ? at_slot(durations, c, path[static_cast<size_t>(c)])
                                   : static_cast<int32_t>(ctc || label == blank);
      if (label != blank && !(ctc && label == last)) {
        added.tokens.push_back(label);
        added.frames.push_back(static_cast<int32_t>(frame));
        if (tdt) added.durations.push_back(duration);
      }
      frame += duration;
      last = label;
    }
    return result;
  }
};

}  // namespace

std::vector<RowPiece> read_pieces(BeamHypotheses& h, const BeamPiece& piece, int64_t columns,
                                  const at::Tensor& consumed, const at::Tensor& nan,
                                  HostReads& reads) {
  const auto written = [&](const at::Tensor& tree) {
    return tree.defined() ? reads.values(tree.narrow(0, 0, columns)).contiguous() : tree;
  };
  const at::Tensor before = reads.values(piece.before);
  // 1 and 3: see BeamHypotheses::state.
  const PieceTree tree{
      written(h.labels), written(h.parents),       written(h.durations), before[1], before[3],
      h.blank,           h.lattice == Lattice::ctc};
  const at::Tensor scores = reads.values(h.scores), done = reads.values(consumed),
                   marked = reads.values(nan.logical_or(h.scores.isnan().any(1)));
  std::vector<RowPiece> rows(static_cast<size_t>(h.batch));
  for (int64_t b = 0; b < h.batch; ++b) {
    RowPiece& row = rows[static_cast<size_t>(b)];
    row.consumed = done.const_data_ptr<int64_t>()[b];
    row.nan = marked.const_data_ptr<bool>()[b];
    for (int64_t k = 0; k < h.beam; ++k) {
      row.slots.push_back(tree.follow(b, k));
      row.slots.back().added.score = scores.const_data_ptr<float>()[b * h.beam + k];
    }
  }
  h.time.sub_(consumed.unsqueeze(1));
  return rows;
}

}  // namespace rtfx
