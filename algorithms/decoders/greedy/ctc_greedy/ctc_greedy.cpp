#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/blank_penalty.h"
#include "algorithms/decoders/greedy/ctc_greedy/collapse_kernel.h"
#include "algorithms/log_zero.h"
#include "algorithms/option_help.h"
#include "base/error.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/score_dtype.h"

namespace rtfx {
namespace {

/// One label for each frame, found with LibTorch's operators.
struct Path {
  at::Tensor labels;    // [B, T'] int64
  at::Tensor logprobs;  // [B, T'] of score_dtype()
  at::Tensor nan;       // [B, T'] bool

  explicit Path(const at::Tensor& logits) {
    const auto [best, argmax] = logits.max(2);
    labels = argmax;
    const at::ScalarType wide = score_dtype(logits.scalar_type());
    logprobs = best.to(wide) - logits.to(wide).logsumexp(2);
    nan = best.isnan();
  }

  at::Tensor valid(const at::Tensor& lengths) const {
    return at::arange(labels.size(1), lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
  }

  /// Collapses the labels of one more piece of an utterance.
  Hypotheses collapse(const at::Tensor& lengths, int64_t blank, CtcCarried& carried) const {
    constexpr double kLeast = 65536;
    Hypotheses h = collapse(lengths, blank, carried.label.unsqueeze(1));
    const at::Tensor units =
        (logprobs.to(at::kDouble).nan_to_num(0).clamp(-kLeast, kLeast) * kLogprobUnits).round();
    carried.sum.add_(at::where(valid(lengths), units, 0).to(at::kLong).sum(1));
    h.scores.copy_(carried.sum.to(at::kDouble) / kLogprobUnits);
    const at::Tensor last = (lengths - 1).clamp_min(0).unsqueeze(1);
    carried.label = at::where(lengths > 0, labels.gather(1, last).squeeze(1), carried.label);
    return h;
  }

  Hypotheses collapse(const at::Tensor& lengths, int64_t blank) const {
    Hypotheses h =
        collapse(lengths, blank, at::full({lengths.size(0), 1}, blank, labels.options()));
    // An infinite logit can leave a frame without a log-probability.
    h.nan.logical_or_(h.scores.isnan());
    return h;
  }

 private:
  /// `before` [B, 1] holds the labels before the first frame.
  Hypotheses collapse(const at::Tensor& lengths, int64_t blank, const at::Tensor& before) const {
    const int64_t frames = labels.size(1);
    const at::Tensor index = at::arange(frames, lengths.options()).unsqueeze(0);
    const at::Tensor valid = this->valid(lengths);
    const at::Tensor previous =
        at::cat({before, labels.narrow(1, 0, std::max<int64_t>(0, frames - 1))}, 1);
    const at::Tensor keep =
        valid.logical_and(labels != blank).logical_and(labels != previous.narrow(1, 0, frames));
    // The n-th kept frame goes to slot n; dropped frames go to a slot behind the last one.
    const at::Tensor slot =
        at::where(keep, keep.cumsum(1) - 1, at::full({}, frames, lengths.options()));
    Hypotheses h = Hypotheses::one_block(slot.size(0), /*entries=*/1, frames + 1,
                                         /*with_durations=*/false, slot.device());
    h.nbest = {};
    h.lengths.copy_(keep.sum(1));
    h.tokens.scatter_(1, slot, labels.to(at::kInt));
    h.frames.scatter_(1, slot, index.expand_as(slot).to(at::kInt));
    const at::Tensor zero = at::zeros({}, logprobs.options());
    at::sum_out(h.scores, at::where(valid, logprobs, zero), 1);
    at::any_out(h.nan, nan.logical_and(valid), 1);
    return h;
  }
};

/// Returns logits [B, T', V+1] in which the forbidden tokens of a row are -infinity.
at::Tensor with_allowed(const at::Tensor& logits, const at::Tensor& forbidden) {
  if (!forbidden.defined()) return logits;
  at::Tensor allowed = logits.clone();
  allowed.narrow(2, 0, forbidden.size(1)).masked_fill_(forbidden.unsqueeze(1), kLogZero);
  return allowed;
}

}  // namespace

const OptionTable<CtcGreedyOptions>& CtcGreedyOptions::table() {
  using O = CtcGreedyOptions;
  static const OptionTable<O> table{{
      option("loop", &O::loop,
             "Execution of the loop over frames, which only `lm` and `boost` need. `host`: the CPU "
             "launches each frame. `replay`: it launches a recorded CUDA graph for each. `graph`: "
             "the GPU runs the loop as one CUDA graph.",
             {"host", "replay", "graph"}),
      option("lm", &O::lm, kGreedyLmHelp, greedy_lm_options()),
      option("boost", &O::boost, kBoostHelp, phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
  }};
  return table;
}

namespace {
const Register<CtcGreedy> registered{
    "ctc_greedy",
    "Greedy search of a CTC head: the best label of each frame, without repetitions and blanks"};
}

struct CtcGreedy::Rows {
  Rows(const GreedyLm& lm, DeviceBias bias, const at::Tensor& logits, const at::Tensor& lengths)
      : logits(logits),
        normalizer(logits.to(score_dtype(logits.scalar_type())).logsumexp(2)),
        path(logits),
        frame(at::zeros({1}, lengths.options())),
        longest(lengths.max().unsqueeze(0)),
        left(frame < longest),
        previous(at::full_like(lengths, blank())),
        fusion(lm, lengths.size(0), std::move(bias)) {}

  /// Takes one step within a piece. Rows that have reached their end stay unchanged.
  void step_within(const at::Tensor& lengths) {
    within = frame < lengths;
    step();
  }

  int64_t blank() const { return logits.size(2) - 1; }

  /// Chooses the label of the next frame of all rows. Labels behind a row's end do not matter.
  void step() {
    const auto at_frame = [&](const at::Tensor& t) { return t.index_select(1, frame).squeeze(1); };
    const at::Tensor label = at_frame(path.labels);
    at::Tensor choice = label.ne(blank()).logical_and(label != previous);
    if (within.defined()) choice = choice.logical_and(within);
    at::Tensor sum = at_frame(logits).to(path.logprobs.scalar_type());
    sum.narrow(1, 0, blank()).add_(fusion.bonus());
    sum.select(1, blank()).fill_(kLogZero);
    sum.scatter_(1, previous.unsqueeze(1), kLogZero);
    const auto [best, token] = sum.max(1);
    const at::Tensor chosen = at::where(choice, token, label);
    previous.copy_(within.defined() ? at::where(within, chosen, previous) : chosen);
    path.labels.index_copy_(1, frame, previous.unsqueeze(1));
    const at::Tensor logprob =
        at::where(choice, best - at_frame(normalizer), at_frame(path.logprobs));
    path.logprobs.index_copy_(1, frame, logprob.unsqueeze(1));
    fusion.append(previous, choice);
    frame.add_(1);
    at::lt_out(left, frame, longest);
  }

  at::Tensor logits;                // [B, T', V+1]
  at::Tensor normalizer;            // [B, T']
  Path path;                        // labels chosen before `frame`, the model's best from it on
  at::Tensor frame, longest, left;  // [1]
  at::Tensor previous;              // [B] label of the frame before
  at::Tensor within;                // [B] bool: rows that have the frame; undefined: all
  GreedyFusion fusion;
};

Description CtcGreedy::describe() const {
  using Exactness = Description::Exactness;
  return {"ctc_greedy",
          Head::ctc,
          uses_lm(options_.lm) || is_biased() || options_.blank_penalty != 0
              ? Exactness::approximate
              : Exactness::exact,
          {"ctc"},
          "logprob",
          /*streams=*/true};
}

void CtcGreedy::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  model_ = std::move(model);
  lm_ = GreedyLm(options_.lm, *model_);
  prepare_bias(*model_, limits);
  if (options_.loop != "host" && !options_.lm && !options_.boost) {
    throw UserError("ctc_greedy",
                    "there is no loop to record without a language model or boosted phrases",
                    R"(set "loop": "host", or give "lm" or "boost")");
  }
  const auto logits = at::TensorOptions(model_->dtype).device(model_->device);
  options_.loop =
      prepare_loops(options_.loop, limits, at::empty({1, 1, model_->config.vocabulary + 1}, logits),
                    [this](const at::Tensor& frames) { return model_->ctc_head->logits(frames); });
}

Hypotheses CtcGreedy::search(const EncodedBatch& batch, Loops& loops) {
  const at::Tensor& lengths = batch.lengths;
  const DeviceBias bias = bias_.rows(lengths.size(0));
  Hypotheses result;
  // A recorded search also serves later batches, whatever phrases they have.
  const bool has_phrases = options_.loop == "host" ? bias_.has_phrases() : bias.has_models();
  if (!lm_ && !has_phrases) {
    loops.segment(RangeName::decode_step, [&] {
      result = DeviceCollapse::takes(batch.frames)
                   ? collapse_batch_(batch.frames, lengths, bias.forbidden)
                   : collapse(with_allowed(batch.frames, bias.forbidden), lengths);
    });
    return result;
  }
  std::optional<Rows> rows;
  loops.segment(RangeName::decode_init, [&] {
    rows.emplace(lm_, bias, with_allowed(batch.frames, bias.forbidden), lengths);
  });
  if (options_.loop == "host") {
    // The host knows how many frames there are, and so need not ask the device.
    for (int64_t t = 0; t < batch.longest(); ++t)
      loops.segment(RangeName::decode_step, [&] { rows->step(); });
  } else {
    loops.while_any(rows->left,
                    [&] { loops.segment(RangeName::decode_step, [&] { rows->step(); }); });
  }
  loops.segment(RangeName::decode_trace_back, [&] {
    result = rows->path.collapse(lengths, rows->blank());
    if (lm_ || !DeviceCollapse::takes(batch.frames)) return;
    // A row without phrases must have the score, in every bit, that it has in a batch without
    // phrases.
    const at::Tensor scores = collapse_batch_(batch.frames, lengths, bias.forbidden).scores;
    result.scores.copy_(at::where(bias.roots == 0, scores, result.scores));
  });
  return result;
}

Hypotheses CtcGreedy::search_piece(const EncodedBatch& batch, Loops&, RowState& state) {
  const at::Tensor& lengths = batch.lengths;
  const int64_t blank = batch.frames.size(2) - 1;
  const DeviceBias bias = bias_.rows(lengths.size(0));
  const auto logits = [&] { return with_allowed(batch.frames, bias.forbidden); };
  std::optional<Rows> rows;
  if (lm_ || bias_.has_phrases()) rows.emplace(lm_, bias, logits(), lengths);
  GreedyFusion none(GreedyLm(), lengths.size(0));
  CtcCarried carried{at::full_like(lengths, blank), at::zeros_like(lengths)};
  const auto transfer = [&](StateTransfer by) {
    (rows ? rows->fusion : none).transfer(by, lengths);
    by(carried.label);
    by(carried.sum);
  };
  if (!state.empty()) transfer(StateTransfer::load(state));
  const bool has_kernel = DeviceCollapse::takes(batch.frames);
  Hypotheses result;
  if (!rows) {
    result = has_kernel ? collapse_piece_(batch.frames, lengths, bias.forbidden, &carried)
                        : Path(logits()).collapse(lengths, blank, carried);
  } else {
    CtcCarried unbiased{carried.label.clone(), carried.sum.clone()};
    rows->previous.copy_(carried.label);
    for (int64_t t = 0; t < batch.longest(); ++t) rows->step_within(lengths);
    result = rows->path.collapse(lengths, blank, carried);
    if (has_kernel && !lm_) {
      // A row without phrases must have the score, in every bit, that it has in a batch without
      // phrases.
      const at::Tensor has_none = bias.roots == 0;
      const at::Tensor scores =
          collapse_piece_(batch.frames, lengths, bias.forbidden, &unbiased).scores;
      result.scores.copy_(at::where(has_none, scores, result.scores));
      carried.sum = at::where(has_none, unbiased.sum, carried.sum);
    }
  }
  state.clear();
  transfer(StateTransfer::save(state));
  return result;
}

Hypotheses CtcGreedy::collapse(const at::Tensor& logits, const at::Tensor& lengths) {
  return Path(logits).collapse(lengths, logits.size(2) - 1);
}

}  // namespace rtfx
