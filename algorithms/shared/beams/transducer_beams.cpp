#include "algorithms/shared/beams/transducer_beams.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/shared/beams/top_k.h"

namespace rtfx {

TransducerBeams::TransducerBeams(const Transducer& transducer, const BeamLm& lm,
                                 const at::Tensor& encoded, const at::Tensor& lengths, int64_t beam,
                                 int64_t columns, AlignmentRule of_rnnt)
    : hypotheses(transducer.is_tdt() ? AlignmentRule::tdt : of_rnnt, lengths.size(0), beam, columns,
                 transducer.blank(), encoded.options()),
      encoded(encoded),
      lengths(lengths.unsqueeze(1)),
      prediction(transducer.start(lengths.size(0) * beam)),
      first_slot((at::arange(lengths.size(0), lengths.options()) * beam).unsqueeze(1)),
      bias(lm.rows.repeated(beam)),
      transducer_(transducer),
      lm_(lm) {
  if (lm_.model != nullptr) lm_states = lm_.model->initial_states(lengths.size(0) * beam);
  if (bias.has_models()) bias_states = bias.initial_states();
}

LogProbs TransducerBeams::log_probs(const at::Tensor& frames, double temperature) const {
  const at::Tensor safe = at::minimum(frames.flatten(1), lengths - 1).clamp_min(0);
  const at::Tensor index = safe.unsqueeze(2).expand({-1, -1, encoded.size(2)});
  at::Tensor rows = encoded.gather(1, index), forbidden = lm_.rows.forbidden;
  at::Tensor output = prediction.output.view({hypotheses.batch, hypotheses.beam, -1});
  if (forbidden.defined()) forbidden = forbidden.unsqueeze(1);
  if (frames.dim() == 3) {
    rows = rows.view({hypotheses.batch, hypotheses.beam, frames.size(2), -1});
    output = output.unsqueeze(2);
    if (forbidden.defined()) forbidden = forbidden.unsqueeze(1);
  }
  return transducer_.log_probs(rows, output, temperature, forbidden);
}

at::Tensor TransducerBeams::fused(const LogProbs& next, const at::Tensor& other) const {
  const bool windows = next.labels.dim() == 4;
  const auto by_slot = [&](const at::Tensor& scores) {
    const at::Tensor slots = scores.view({hypotheses.batch, hypotheses.beam, -1});
    return windows ? slots.unsqueeze(2).expand({-1, -1, next.labels.size(2), -1}) : slots;
  };
  at::Tensor fused = next.labels;
  if (lm_.model != nullptr)
    fused = fuse(fused, by_slot(lm_.model->scores(lm_states)), *lm_.options);
  else if (other.defined())
    fused = fuse(fused, other, *lm_.options);
  if (!bias.has_models()) return fused;
  fused = fused + at::constant_pad_nd(by_slot(bias.scores(bias_states)), {0, 1});
  if (!bias.blank_weights.defined()) return fused;
  const at::Tensor weights = bias.blank_weights.view({hypotheses.batch, hypotheses.beam});
  return rescale_blank(fused, next.labels, windows ? weights.unsqueeze(2) : weights,
                       lm_.options != nullptr ? lm_.options->blank_eps : kBlankEps);
}

Expansions TransducerBeams::expand(const LogProbs& next, const at::Tensor& fused,
                                   int64_t count) const {
  const TopK best = top_k(lm_.early() ? next.labels : fused, count);
  Expansions all{
      best.indices, fused.gather(2, best.indices), next.labels.gather(2, best.indices), {}};
  if (!transducer_.is_tdt()) return all;

  const auto pairs = [&](const at::Tensor& labels) {
    return (labels.unsqueeze(3) + next.durations.unsqueeze(2)).flatten(2);
  };
  const at::Tensor scores = pairs(all.scores), acoustic = pairs(all.acoustic);
  const TopK top = top_k(scores, count);
  const int64_t values = next.durations.size(2);
  const at::Tensor labels = all.labels.gather(2, top.indices.div(values, "floor"));
  const at::Tensor frames = transducer_.duration_values().take(top.indices.remainder(values));
  return {labels, top.values, acoustic.gather(2, top.indices),
          at::where(labels == transducer_.blank(), frames.clamp_min(1), frames)};
}

Choice TransducerBeams::choose(const at::Tensor& scores, const at::Tensor& labels,
                               const at::Tensor& durations, const at::Tensor& open) const {
  const BeamHypotheses& h = hypotheses;
  const TopK best = top_k(scores.flatten(1), h.beam);
  const at::Tensor any = open.any(1, /*keepdim=*/true);
  const at::Tensor own = at::arange(h.beam, labels.options());
  const auto best_of = [&](const at::Tensor& values) {
    return values.defined() ? values.flatten(1).gather(1, best.indices) : values;
  };
  return {at::where(any, best.indices.div(scores.size(2), "floor"), own),
          best_of(labels).masked_fill(any.logical_not(), -1), at::where(any, best.values, h.scores),
          best_of(durations)};
}

void TransducerBeams::advance(const at::Tensor& parents, const at::Tensor& labels) {
  const int64_t blank = transducer_.blank();
  const at::Tensor slots = (first_slot + parents).flatten();
  const at::Tensor label = labels.flatten();
  const at::Tensor token = (label >= 0).logical_and(label != blank);
  const at::Tensor output = prediction.output.index_select(0, slots);
  const PredictionState state = prediction.state.rows(slots);
  const Transducer::Prediction next =
      transducer_.predict(at::where(token, label, at::full_like(label, blank)), state);
  at::where_out(prediction.output, token.unsqueeze(1), next.output, output);
  prediction.state.assign(state.select(token, next.state));
  if (lm_.model != nullptr)
    lm_states.copy_(lm_.model->next_states(lm_states.index_select(0, slots), label));
  if (bias.has_models())
    bias_states.copy_(bias.next_states(bias_states.index_select(0, slots), label));
}

void TransducerBeams::transfer(StateTransfer& transfer) {
  const int64_t beam = hypotheses.beam;
  transfer.or_zeros(bias_states, lengths, beam);
  hypotheses.transfer(transfer);
  transfer(prediction.output, 0, beam);
  prediction.state.for_each_tensor(
      [&](at::Tensor& tensor, int64_t dimension) { transfer(tensor, dimension, beam); });
  transfer(lm_states, 0, beam);
}

void TransducerBeams::end() {
  if (bias.has_models())
    hypotheses.scores.add_(bias.final_scores(bias_states).view_as(hypotheses.scores));
}

Hypotheses TransducerBeams::result(int64_t nbest, bool score_norm) {
  end();
  return hypotheses.result(nbest, score_norm, rows_with_nan(encoded, lengths.squeeze(1)));
}

}  // namespace rtfx
