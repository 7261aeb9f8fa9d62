#include "algorithms/shared/beams/beam_hypotheses.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/backtrace.h"
#include "algorithms/shared/beams/top_k.h"
#include "base/error.h"
#include "models/checkpoint/score_dtype.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

constexpr int64_t kFields = 6;                // tensors in BeamHypotheses::state
constexpr int64_t kTextFields = 3;            // the first ones, which identify a text
constexpr int64_t kLastLabel = 1, kTime = 3;  // indices of fields

/// Returns where the values [..., B, K] of slots i and j are equal: [..., B, K, K].
at::Tensor pairs_equal(const at::Tensor& values) {
  return values.unsqueeze(-1) == values.unsqueeze(-2);
}

/// Writes tokens, frames and (TDT) durations of the hypotheses in slots order[b, n] into `list`,
/// [B, N, capacity] int32 each, where no length exceeds the capacity. order: [B, N] int64.
void write_paths(const BeamHypotheses& beams, const at::Tensor& order, NBest& list) {
  const bool tdt = beams.durations.defined();
  const BacktraceArrays arrays{
      data_of<int32_t>(beams.labels),
      data_of<int32_t>(beams.parents),
      tdt ? data_of<int32_t>(beams.durations) : nullptr,
      data_of<int64_t>(beams.column),
      data_of<int64_t>(beams.lengths),
      data_of<int64_t>(beams.time),
      data_of<int64_t>(order),
      list.tokens.mutable_data_ptr<int32_t>(),
      list.frames.mutable_data_ptr<int32_t>(),
      tdt ? list.durations.mutable_data_ptr<int32_t>() : nullptr,
      beams.batch,
      beams.beam,
      order.size(1),
      list.tokens.size(2),
      static_cast<int32_t>(beams.blank),
      beams.rule,
  };
  if (order.is_cuda()) {
    launch_backtrace(arrays, c10::cuda::getCurrentCUDAStream(order.device().index()).stream());
    return;
  }
  for (int64_t b = 0; b < arrays.batch; ++b)
    for (int64_t n = 0; n < arrays.nbest; ++n) trace_back(arrays, b, n);
}

/// Returns the rows [B] of scores [B, K] without a usable hypothesis: some score is NaN, or all are
/// -inf.
at::Tensor unusable(const at::Tensor& scores) {
  return scores.isnan().any(1).logical_or_(scores.isfinite().any(1).logical_not());
}

}  // namespace

BeamHypotheses::BeamHypotheses(AlignmentRule rule, int64_t batch, int64_t beam, int64_t columns,
                               int64_t blank, const at::TensorOptions& like,
                               int64_t hash_multiplier)
    : rule(rule),
      batch(batch),
      beam(beam),
      columns(columns),
      blank(blank),
      hash_multiplier(hash_multiplier) {
  const auto longs = like.dtype(at::kLong);
  const at::ScalarType type = score_dtype(c10::typeMetaToScalarType(like.dtype()));
  scores = at::full({batch, beam}, kLogZero, like.dtype(type));
  scores.select(1, 0).zero_();
  state = at::zeros({kFields, batch, beam}, longs);
  at::Tensor* const fields[] = {&hash, &last_label, &lengths, &time, &prefix_hash, &run};
  for (int64_t i = 0; i < kFields; ++i) *fields[i] = state.select(0, i);
  last_label.fill_(-1);
  labels = at::empty({columns, batch, beam}, longs.dtype(at::kInt));
  parents = at::empty_like(labels);
  if (rule == AlignmentRule::tdt) durations = at::empty_like(labels);
  column = at::zeros({1}, longs);
}

void BeamHypotheses::use_flat_texts(Comparison chosen) {
  texts.emplace(batch, beam, columns, durations.defined(), scores.device());
  comparison = chosen;
}

void BeamHypotheses::append(const at::Tensor& from, const at::Tensor& label,
                            const at::Tensor& new_scores, const at::Tensor& frames) {
  const auto write = [this](at::Tensor& tree, const at::Tensor& values) {
    tree.index_copy_(0, column, values.to(at::kInt).unsqueeze(0));
  };
  if (!texts) {
    write(labels, label);
    write(parents, from);
    if (durations.defined()) write(durations, frames);
    column.add_(1);
  }

  const at::Tensor old = state.gather(2, from.unsqueeze(0).expand({kFields, -1, -1}));
  const at::Tensor old_hash = old[0], old_last = old[1];
  const at::Tensor extended = label >= 0, is_blank = label == blank;
  at::Tensor token = extended.logical_and(is_blank.logical_not());
  at::Tensor moved;
  switch (rule) {
    case AlignmentRule::ctc:
      token = token.logical_and(label != old_last);
      moved = extended;
      break;
    case AlignmentRule::rnnt:
      moved = is_blank;
      break;
    case AlignmentRule::monotonic:
      moved = extended;
      break;
    case AlignmentRule::tdt:
      moved = at::where(extended, frames, at::zeros_like(frames));
      break;
  }
  if (texts) texts->append(from, label, token, old[2], old[3], frames);
  scores.copy_(new_scores);
  at::where_out(hash, token, old_hash * hash_multiplier + 1 + label, old_hash);
  at::where_out(last_label, rule == AlignmentRule::ctc ? extended : token, label, old_last);
  at::add_out(lengths, old[2], token);
  at::add_out(time, old[3], moved);
  at::where_out(prefix_hash, token, old_hash, old[4]);
  at::mul_out(run, old[5] + token, moved == 0);
}

void BeamHypotheses::merge_at(const at::Tensor& frames, bool sum) {
  if (beam == 1) return;
  at::Tensor equal = comparison.by_tokens ? texts->equal(lengths)
                                          : pairs_equal(state.narrow(0, 0, kTextFields)).all(0);
  if (comparison.counted) texts->count(alive(), hash, equal, lengths);
  if (rule == AlignmentRule::tdt) equal = equal.logical_and(pairs_equal(frames));
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
  return rule == AlignmentRule::tdt ? both.logical_and(pairs_equal(time)) : both;
}

at::Tensor BeamHypotheses::alive() const { return scores > kLogZero; }

Hypotheses BeamHypotheses::result(int64_t nbest, bool score_norm, const at::Tensor& nan) const {
  const int64_t count = std::min(nbest, beam);
  const at::Tensor order = top_k(score_norm ? scores / (lengths + 1) : scores, count).indices;
  Hypotheses h = Hypotheses::one_block(batch, count, columns, durations.defined(), scores.device());
  h.nbest.lengths.copy_(lengths.gather(1, order));
  h.nbest.scores.copy_(scores.gather(1, order));
  at::logical_or_out(h.nan, nan, unusable(scores));
  texts ? texts->write(order, h.nbest) : write_paths(*this, order, h.nbest);
  if (nbest == 1) h.nbest = {};
  return h;
}

void require_beam_fits(const Description& description, int64_t beam_size,
                       const AcousticModel& model, int64_t expansion_beta) {
  const int64_t tokens = model.config.vocabulary;
  if (beam_size + expansion_beta <= tokens) return;
  if (expansion_beta > 0) {
    throw UserError(description.name,
                    fmt::format("beam_size {} + expansion_beta {} is larger than the vocabulary of "
                                "the model, {} tokens",
                                beam_size, expansion_beta, tokens),
                    "choose a smaller beam_size or expansion_beta");
  }
  throw UserError(description.name,
                  fmt::format("a beam of {} is larger than the vocabulary of the model, {} tokens",
                              beam_size, tokens),
                  "choose a smaller beam");
}

namespace {

/// The columns of the tree that a piece wrote, on the host.
struct PieceTree {
  at::Tensor labels, parents, durations;  // [C, B, K] int32
  at::Tensor last_label, time;            // [B, K] int64, their values before the piece
  int64_t blank;
  AlignmentRule rule;

  RowPiece::Slot follow(int64_t b, int64_t slot) const {
    const auto at_slot = [&](const at::Tensor& tree, int64_t c, int64_t k) {
      return data_of<int32_t>(tree)[(c * tree.size(1) + b) * tree.size(2) + k];
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
      return data_of<int64_t>(values)[b * values.size(1) + origin];
    };
    int64_t last = before(last_label), frame = before(time);
    Hypothesis& added = result.added;
    for (int64_t c = 0; c < labels.size(0); ++c) {
      const int32_t label = at_slot(labels, c, path[static_cast<size_t>(c)]);
      if (label < 0) continue;
      const bool tdt = rule == AlignmentRule::tdt;
      const int32_t duration = frames_moved(
          rule, label == blank, tdt ? at_slot(durations, c, path[static_cast<size_t>(c)]) : 0);
      if (label != blank && !(rule == AlignmentRule::ctc && label == last)) {
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
  const PieceTree tree{written(h.labels),
                       written(h.parents),
                       written(h.durations),
                       before[kLastLabel],
                       before[kTime],
                       h.blank,
                       h.rule};
  const at::Tensor scores = reads.values(h.scores.to(at::kFloat)), done = reads.values(consumed),
                   marked = reads.values(nan.logical_or(unusable(h.scores)));
  std::vector<RowPiece> rows(static_cast<size_t>(h.batch));
  for (int64_t b = 0; b < h.batch; ++b) {
    RowPiece& row = rows[static_cast<size_t>(b)];
    row.consumed = data_of<int64_t>(done)[b];
    row.nan = data_of<bool>(marked)[b];
    for (int64_t k = 0; k < h.beam; ++k) {
      row.slots.push_back(tree.follow(b, k));
      row.slots.back().added.score = data_of<float>(scores)[b * h.beam + k];
    }
  }
  h.time.sub_(consumed.unsqueeze(1));
  return rows;
}

}  // namespace rtfx
