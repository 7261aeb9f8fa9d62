#include "algorithms/shared/beams/monotonic_beams.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/log_zero.h"

namespace rtfx {

MonotonicBeams::MonotonicBeams(TransducerBeams start, double temperature)
    : beams(std::move(start)),
      open(at::empty_like(beams.hypotheses.time, at::kBool)),
      temperature_(temperature) {
  refresh();
}

/// Finds the hypotheses at the earliest frame of their utterance. RNN-T's hypotheses are all there.
void MonotonicBeams::refresh() {
  const BeamHypotheses& h = beams.hypotheses;
  const at::Tensor alive = h.alive();
  at::logical_and_out(open, alive, h.time < beams.lengths);
  if (h.rule != AlignmentRule::tdt) return;
  const at::Tensor earliest = at::where(alive, h.time, beams.lengths).amin(1, /*keepdim=*/true);
  open.logical_and_(h.time == earliest);
}

void MonotonicBeams::step() {
  const LogProbs next = beams.log_probs(beams.hypotheses.time, temperature_);
  move(next, beams.fused(next));
}

Choice MonotonicBeams::move(const LogProbs& next, const at::Tensor& fused) {
  BeamHypotheses& h = beams.hypotheses;
  const Expansions all = beams.expand(next, fused, h.beam);

  // A hypothesis that waits or has finished has one candidate, itself, in the first column.
  const at::Tensor own = h.scores.unsqueeze(2), has_label = open.unsqueeze(2);
  const at::Tensor nothing = at::full({}, kLogZero, h.scores.options());
  const at::Tensor first = at::arange(h.beam, h.time.options()) == 0;
  const at::Tensor scores = at::where(has_label, own + all.scores, at::where(first, own, nothing));
  const at::Tensor labels = all.labels.masked_fill(has_label.logical_not(), -1);
  const at::Tensor durations = all.durations.defined() ? all.durations.clamp_min(1) : all.durations;

  const Choice best = beams.choose(scores, labels, durations, open);
  h.append(best.parents, best.labels, best.scores, best.durations);
  h.merge();
  beams.advance(best.parents, best.labels);
  refresh();
  return best;
}

void MonotonicBeams::end() {
  BeamHypotheses& h = beams.hypotheses;
  // RNN-T's texts were merged when they finished, since all finish at the same frame.
  if (h.rule == AlignmentRule::tdt) h.merge_at(beams.lengths.expand_as(h.time));
  beams.end();
}

Hypotheses MonotonicBeams::result(int64_t nbest, bool score_norm) {
  end();
  return beams.hypotheses.result(nbest, score_norm,
                                 rows_with_nan(beams.encoded, beams.lengths.squeeze(1)));
}

std::vector<RowPiece> MonotonicBeams::piece(const EncodedBatch& batch, bool last, RowState& carried,
                                            HostReads& reads) {
  if (!carried.empty()) {
    StateTransfer load = StateTransfer::load(carried);
    transfer(load);
    refresh();
  }
  const BeamPiece before(beams.hypotheses);
  int64_t columns = 0;
  for (; reads.any(open); ++columns) step();
  if (last) end();
  // Hypotheses that jumped beyond the piece wait until it ends. Then no frame of it is needed.
  auto rows = read_pieces(beams.hypotheses, before, columns, batch.lengths,
                          rows_with_nan(batch.frames, batch.lengths), reads);
  carried.clear();
  StateTransfer save = StateTransfer::save(carried);
  transfer(save);
  return rows;
}

}  // namespace rtfx
