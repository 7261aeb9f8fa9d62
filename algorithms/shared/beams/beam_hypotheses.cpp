#include "algorithms/shared/beams/beam_hypotheses.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/backtrace.h"
#include "algorithms/shared/beams/top_k.h"

namespace rtfx {
namespace {

constexpr int64_t kFields = 6;      // of BeamHypotheses::state
constexpr int64_t kTextFields = 3;  // the first of them: hash, last_label, lengths

/// Where values [..., B, K] of slots i and j are equal: [..., B, K, K].
at::Tensor pairs_equal(const at::Tensor& values) {
  return values.unsqueeze(-1) == values.unsqueeze(-2);
}

}  // namespace

BeamHypotheses::BeamHypotheses(Lattice lattice, int64_t batch, int64_t beam, int64_t columns,
                               int64_t blank, at::Device device, int64_t hash_multiplier)
    : lattice(lattice),
      batch(batch),
      beam(beam),
      columns(columns),
      blank(blank),
      hash_multiplier(hash_multiplier) {
  const auto longs = at::TensorOptions(at::kLong).device(device);
  scores = at::full({batch, beam}, kLogZero, longs.dtype(at::kFloat));
  scores.select(1, 0).zero_();
  state = at::zeros({kFields, batch, beam}, longs);
  at::Tensor* const fields[] = {&hash, &last_label, &lengths, &time, &prefix_hash, &run};
  for (int64_t i = 0; i < kFields; ++i) *fields[i] = state.select(0, i);
  last_label.fill_(-1);
  labels = at::empty({columns, batch, beam}, longs.dtype(at::kInt));
  parents = at::empty_like(labels);
  if (lattice == Lattice::tdt) durations = at::empty_like(labels);
  column = at::zeros({1}, longs);
}

void BeamHypotheses::append(const at::Tensor& from, const at::Tensor& label,
                            const at::Tensor& new_scores, const at::Tensor& frames) {
  const auto write = [this](at::Tensor& tree, const at::Tensor& values) {
    tree.index_copy_(0, column, values.to(at::kInt).unsqueeze(0));
  };
  write(labels, label);
  write(parents, from);
  if (durations.defined()) write(durations, frames);
  column.add_(1);

  const at::Tensor old = state.gather(2, from.unsqueeze(0).expand({kFields, -1, -1}));
  const at::Tensor old_hash = old[0], old_last = old[1];
  const at::Tensor extended = label >= 0, is_blank = label == blank;
  at::Tensor token = extended.logical_and(is_blank.logical_not());
  at::Tensor moved;
  switch (lattice) {
    case Lattice::ctc:
      token = token.logical_and(label != old_last);
      moved = extended;
      break;
    case Lattice::rnnt:
      moved = is_blank;
      break;
    case Lattice::tdt:
      moved = at::where(extended, frames, at::zeros_like(frames));
      break;
  }
  scores.copy_(new_scores);
  at::where_out(hash, token, old_hash * hash_multiplier + 1 + label, old_hash);
  at::where_out(last_label, lattice == Lattice::ctc ? extended : token, label, old_last);
  at::add_out(lengths, old[2], token);
  at::add_out(time, old[3], moved);
  at::where_out(prefix_hash, token, old_hash, old[4]);
  at::mul_out(run, old[5] + token, moved == 0);
}

void BeamHypotheses::merge_at(const at::Tensor& frames, bool sum) {
  if (beam == 1) return;
  at::Tensor equal = pairs_equal(state.narrow(0, 0, kTextFields)).all(0);
  if (lattice == Lattice::tdt) equal = equal.logical_and(pairs_equal(frames));
  const at::Tensor nothing = at::full({}, kLogZero, scores.options());
  const at::Tensor shared = at::where(equal, scores.unsqueeze(1), nothing);  // [b, i, j]: score j
  const auto [best, first] = shared.max(2);
  const at::Tensor survives = first == at::arange(beam, first.options());
  at::where_out(scores, survives, sum ? shared.logsumexp(2) : best, nothing);
}

at::Tensor BeamHypotheses::extended_hash(const at::Tensor& label) const {
  return hash.unsqueeze(2) * hash_multiplier + 1 + label;
}

at::Tensor BeamHypotheses::extends() const {
  const at::Tensor one_longer = lengths.unsqueeze(2) == lengths.unsqueeze(1) + 1;
  const at::Tensor prefix = prefix_hash.unsqueeze(2) == hash.unsqueeze(1);
  const at::Tensor both = one_longer.logical_and(prefix);
  return lattice == Lattice::tdt ? both.logical_and(pairs_equal(time)) : both;
}

at::Tensor BeamHypotheses::alive() const { return scores > kLogZero; }

Hypotheses BeamHypotheses::result(int64_t nbest, bool score_norm, const at::Tensor& nan) const {
  const int64_t count = std::min(nbest, beam);
  const at::Tensor order = top_k(score_norm ? scores / (lengths + 1) : scores, count).indices;
  Hypotheses h = Hypotheses::one_block(batch, count, columns, durations.defined(), scores.device());
  h.nbest.lengths.copy_(lengths.gather(1, order));
  at::gather_out(h.nbest.scores, scores, 1, order);
  at::logical_or_out(h.nan, nan, scores.isnan().any(1));
  backtrace(*this, order, h.nbest);
  if (nbest == 1) h.nbest = {};
  return h;
}

}  // namespace rtfx
