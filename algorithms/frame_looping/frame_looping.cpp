#include "algorithms/frame_looping/frame_looping.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "base/nvtx.h"

namespace rtfx {
namespace {

const OptionTable<FrameLooping::Options> kOptions{{
    option("batched", &FrameLooping::Options::batched, "false: one utterance after the other"),
    option("cache_predictor", &FrameLooping::Options::cache_predictor,
           "keep the prediction network's output until a token is emitted (exact)"),
    option("precompute_projections", &FrameLooping::Options::precompute_projections,
           "project encoder frames once per batch, predictions once per step (exact)"),
    option("max_symbols", &FrameLooping::Options::max_symbols, "tokens per frame", 1, 1000),
    option("score_kind", &FrameLooping::Options::score_kind, "what a score sums over the tokens",
           {"logit", "logprob"}),
    option(
        "legacy_budget", &FrameLooping::Options::legacy_budget,
        "TDT: skip a frame whenever max_symbols is reached, as NeMo did before its fix (inexact)"),
}};

const RegisterDecoder registered{
    {"frame_looping", "greedy RNN-T/TDT, frame by frame: the baseline", kOptions.info(),
     [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<FrameLooping>(kOptions.fill(options, where));
     }}};

}  // namespace

struct FrameLooping::Rows {
  Rows(const Transducer& transducer, const EncodedBatch& batch)
      : encoded(transducer.encode(batch.frames)),
        lengths(batch.lengths),
        state(transducer.initial_state(lengths.size(0))),
        last(at::full({lengths.size(0)}, transducer.blank(), lengths.options())),
        hypotheses(encoded, lengths, transducer.is_tdt()) {
    for (const int64_t length : batch.lengths_host) longest = std::max(longest, length);
  }

  at::Tensor encoded, lengths;
  PredictionState state;  // before `last` is consumed
  at::Tensor last;        // [B] last token, blank at the start
  BatchedHypotheses hypotheses;
  std::optional<Transducer::Prediction> prediction;  // of (last, state); dropped when a token comes
  int64_t longest = 0;
};

Description FrameLooping::describe() const {
  using Exactness = Description::Exactness;
  return {"frame_looping",
          Head::transducer,
          options_.legacy_budget ? Exactness::approximate : Exactness::exact,
          {"rnnt", "tdt"},
          options_.score_kind};
}

nlohmann::json FrameLooping::options() const { return kOptions.resolved(options_); }

void FrameLooping::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  transducer_.emplace(std::move(model),
                      Transducer::Options{options_.precompute_projections,
                                          options_.precompute_projections, options_.score_kind});
}

Counters FrameLooping::counters() const {
  return {{"frames_visited", frames_visited_},
          {"joint_calls", joint_calls_},
          {"joint_rows", joint_rows_},
          {"pred_calls", pred_calls_},
          {"host_reads", host_.count()}};
}

Hypotheses FrameLooping::decode(const EncodedBatch& batch) {
  host_.reset();
  frames_visited_ = joint_calls_ = joint_rows_ = pred_calls_ = 0;
  if (options_.batched) return decode_rows(batch);
  std::vector<Hypotheses> parts;
  for (int64_t b = 0; b < batch.frames.size(0); ++b) {
    const int64_t length = batch.lengths_host[b];
    parts.push_back(decode_rows({batch.frames.narrow(0, b, 1).narrow(1, 0, length),
                                 batch.lengths.narrow(0, b, 1),
                                 {length}}));
  }
  return concatenate(parts);
}

Hypotheses FrameLooping::decode_rows(const EncodedBatch& batch) {
  std::optional<Rows> rows;
  {
    const ScopedRange range("decode.project");
    rows.emplace(*transducer_, batch);
  }
  const ScopedRange range("decode.loop");
  transducer_->is_tdt() ? loop_tdt(*rows) : loop_rnnt(*rows);
  return rows->hypotheses.result();
}

Decision FrameLooping::evaluate(Rows& rows, const at::Tensor& encoded_rows) {
  if (!rows.prediction || !options_.cache_predictor) {
    rows.prediction = transducer_->predict(rows.last, rows.state);
    ++pred_calls_;
  }
  ++joint_calls_;
  joint_rows_ += rows.last.size(0);
  return transducer_->decide(encoded_rows, rows.prediction->output);
}

void FrameLooping::emit(Rows& rows, const at::Tensor& mask, const Decision& decision,
                        const at::Tensor& frames) {
  rows.hypotheses.append(mask, decision.labels, frames, decision.durations, decision.scores);
  rows.state = rows.state.select(mask, rows.prediction->state);
  rows.last = at::where(mask, decision.labels, rows.last);
  rows.prediction.reset();
}

void FrameLooping::loop_rnnt(Rows& rows) {
  for (int64_t t = 0; t < rows.longest; ++t) {
    const at::Tensor frame = at::full_like(rows.lengths, t);
    const at::Tensor encoded = rows.encoded.select(1, t);
    at::Tensor active = rows.lengths > t;
    ++frames_visited_;
    for (int64_t n = 0; n < options_.max_symbols; ++n) {
      const Decision decision = evaluate(rows, encoded);
      active = active.logical_and(decision.is_blank.logical_not());
      if (!host_.any(active)) break;
      emit(rows, active, decision, frame);
    }
  }
}

void FrameLooping::loop_tdt(Rows& rows) {
  if (rows.longest == 0) return;
  const at::Tensor last_frame = (rows.lengths - 1).clamp_min(0);
  at::Tensor time = at::zeros_like(rows.lengths);
  at::Tensor used = at::zeros_like(rows.lengths);  // symbols spent at the current frame
  at::Tensor active = rows.lengths > 0;
  while (host_.any(active)) {
    ++frames_visited_;
    const Decision decision =
        evaluate(rows, gather_frames(rows.encoded, at::minimum(time, last_frame)));
    emit(rows, active.logical_and(decision.is_blank.logical_not()), decision, time);
    used = used + 1;
    time = time + at::where(active, decision.durations, at::zeros_like(time));
    const at::Tensor spent = used >= options_.max_symbols;
    const at::Tensor stuck = decision.durations == 0;
    // A blank that predicts 0 has its one frame already, under either rule.
    const at::Tensor stepped = decision.is_blank.logical_and(decision.predicted == 0);
    const at::Tensor forced =
        spent.logical_and(options_.legacy_budget ? stepped.logical_not() : stuck);
    time = time + forced.logical_and(active);
    used = at::where(stuck.logical_and(spent.logical_not()), used, at::zeros_like(used));
    active = time < rows.lengths;
  }
}

}  // namespace rtfx
