#include "algorithms/decoders/beam/aes_pp/search.h"

#include <ATen/ATen.h>

#include "algorithms/log_zero.h"

namespace rtfx {
namespace {

/// Returns -inf as a [] float32 tensor for where().
at::Tensor nothing(const at::Tensor& like) { return at::full({}, kLogZero, like.options()); }

}  // namespace

AesPp::Search::Search(const Options& options, const Transducer& transducer, const BeamLm& lm,
                      const at::Tensor& encoded, const at::Tensor& lengths)
    : options_(options),
      transducer_(transducer),
      tdt_(transducer.is_tdt()),
      early_(lm.early()),
      // A frame appends at most num_steps labels and a blank to each hypothesis.
      beams_(transducer, lm, encoded, lengths, options.beam_size,
             encoded.size(1) * (options.num_steps + 1)) {
  const std::vector<int64_t>& durations = transducer.duration_list();
  for (size_t i = 0; i < durations.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (durations[i] == 0) {
      zero_ = index;
    } else if (shortest_ < 0 || durations[i] < durations[static_cast<size_t>(shortest_)]) {
      shortest_ = index;
    }
  }
  frame_ = at::zeros({1}, lengths.options());
  step_ = at::zeros_like(frame_);
  active = frame_ < beams_.lengths;
  open_ = at::zeros_like(beams_.hypotheses.time, at::kBool);
  expanding = at::zeros_like(open_);
}

/// Fills next_ and fused_: one joint call for all hypotheses at the frame.
void AesPp::Search::evaluate_joint() {
  const LogProbs next =
      beams_.log_probs(frame_.expand_as(beams_.hypotheses.time), options_.temperature);
  const at::Tensor fused = beams_.fused(next);
  if (!next_.labels.defined()) {
    next_ = {at::empty_like(next.labels), tdt_ ? at::empty_like(next.durations) : at::Tensor()};
    fused_ = fused.is_same(next.labels) ? next_.labels : at::empty_like(fused);
  }
  next_.labels.copy_(next.labels);
  if (tdt_) next_.durations.copy_(next.durations);
  if (!fused_.is_same(next_.labels)) fused_.copy_(fused);
}

void AesPp::Search::start_frame() {
  const BeamHypotheses& h = beams_.hypotheses;
  evaluate_joint();
  at::logical_and_out(open_, h.alive(), active);
  if (tdt_) open_.logical_and_(h.time == frame_);
  prefix_search();
  step_.zero_();
  expanding.copy_(open_);
}

void AesPp::Search::prefix_search() {
  if (options_.beam_size == 1 || (tdt_ && zero_ < 0)) return;
  BeamHypotheses& h = beams_.hypotheses;
  // [b, j, i]: the last token of slot i after the text of slot j.
  const at::Tensor last = h.last_label.clamp_min(0).unsqueeze(1).expand({-1, h.beam, -1});
  at::Tensor given = fused_.gather(2, last) + h.scores.unsqueeze(2);
  if (tdt_) given = given + next_.durations.select(2, zero_).unsqueeze(2);
  given = at::where(h.extends(), given.transpose(1, 2), nothing(given)).logsumexp(2);
  at::where_out(h.scores, open_, at::logaddexp(h.scores, given), h.scores);
}

void AesPp::Search::expand() {
  BeamHypotheses& h = beams_.hypotheses;
  const int64_t count = options_.beam_size + options_.expansion_beta;
  Expansions all = beams_.expand(next_, fused_, count);
  const at::Tensor before = h.scores.unsqueeze(2), open = open_.unsqueeze(2);
  const at::Tensor ranked = before + (early_ ? all.acoustic : all.scores);
  const at::Tensor kept = ranked > ranked.amax(2, /*keepdim=*/true) - options_.expansion_gamma;
  at::Tensor scores = before + all.scores;
  if (options_.count_acoustic_twice && early_ && options_.lm->blank_scoring == "lm_weighted_full")
    scores = scores + all.acoustic;

  // A hypothesis that is not expanded has one candidate, itself, in the last column.
  const at::Tensor last = at::arange(count, h.time.options()) == count - 1;
  const at::Tensor possible = kept.logical_and(held(all).logical_not());
  scores = at::where(open, at::where(possible, scores, nothing(scores)),
                     at::where(last, before, nothing(scores)));
  all.labels = at::where(open, all.labels, at::full_like(all.labels, -1));
  if (tdt_) {
    all.durations = at::where(open, all.durations, at::zeros_like(all.durations));
    scores = merged(scores, all);
  }

  const bool as_nemo = !options_.permute_update && !tdt_;
  const at::Tensor open_or_empty =
      as_nemo ? open_.logical_or(h.alive().logical_not()) : at::Tensor();
  const Choice best = beams_.choose(scores, all.labels, all.durations, open_);
  h.append(best.parents, best.labels, best.scores, best.durations);
  beams_.advance(best.parents, best.labels);
  evaluate_joint();
  at::Tensor still = (best.labels >= 0).logical_and(best.labels != h.blank).logical_and(h.alive());
  if (tdt_) still = still.logical_and(best.durations == 0);
  // A label shows that its parent was open. NeMo also asks whether the slot's former hypothesis
  // was.
  if (as_nemo) still = still.logical_and(open_or_empty);
  open_.copy_(still);
  step_.add_(1);
  at::logical_and_out(expanding, open_, step_ < options_.num_steps);
}

/// Returns [B, K, E] bool: tokens that stay at the frame and make a text which the beam holds.
at::Tensor AesPp::Search::held(const Expansions& all) const {
  const BeamHypotheses& h = beams_.hypotheses;
  const at::Tensor holder = tdt_ ? h.alive().logical_and(h.time == frame_) : h.alive();
  const at::Tensor equal =
      h.extended_hash(all.labels).flatten(1).unsqueeze(2) == h.hash.unsqueeze(1);  // [B, K*E, K]
  const at::Tensor found = equal.logical_and(holder.unsqueeze(1)).any(2).view(all.labels.sizes());
  const at::Tensor held = found.logical_and(all.labels != h.blank);
  return tdt_ ? held.logical_and(all.durations == 0) : held;
}

/// For candidates of TDT with equal texts at equal frames: the best gets the sum, the others -inf.
at::Tensor AesPp::Search::merged(const at::Tensor& scores, const Expansions& all) const {
  const BeamHypotheses& h = beams_.hypotheses;
  const at::Tensor token = (all.labels >= 0).logical_and(all.labels != h.blank);
  const at::Tensor hash =
      at::where(token, h.extended_hash(all.labels), h.hash.unsqueeze(2)).flatten(1);
  const at::Tensor time = (h.time.unsqueeze(2) + all.durations).flatten(1);
  const auto pairs = [](const at::Tensor& x) { return x.unsqueeze(2) == x.unsqueeze(1); };
  const at::Tensor shared = at::where(pairs(hash).logical_and(pairs(time)),
                                      scores.flatten(1).unsqueeze(1), nothing(scores));
  const at::Tensor first = std::get<1>(shared.max(2));
  const at::Tensor survives = first == at::arange(first.size(1), first.options());
  return at::where(survives, shared.logsumexp(2), nothing(scores)).view(scores.sizes());
}

void AesPp::Search::finish_frame() {
  BeamHypotheses& h = beams_.hypotheses;
  at::Tensor blank = next_.labels.select(2, h.blank), durations;
  if (tdt_) {
    const at::Tensor& values = transducer_.duration_values();
    at::Tensor index = next_.durations.argmax(2);
    if (shortest_ >= 0)
      index = at::where(values.take(index) == 0, at::full_like(index, shortest_), index);
    blank = blank + next_.durations.gather(2, index.unsqueeze(2)).squeeze(2);
    durations = values.take(index).clamp_min(1);
  }
  const at::Tensor own = at::arange(h.beam, h.time.options()).expand_as(h.time);
  h.append(own, open_.to(at::kLong) * (h.blank + 1) - 1,  // blank, or -1
           at::where(open_, h.scores + blank, h.scores), durations);
  if (tdt_) h.merge();
  frame_.add_(1);
  at::lt_out(active, frame_, beams_.lengths);
}

Hypotheses AesPp::Search::result() { return beams_.result(options_.nbest, options_.score_norm); }

}  // namespace rtfx
