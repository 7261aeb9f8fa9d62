#include "algorithms/decoders/greedy/frame_looping/frame_looping.h"

#include <ATen/ATen.h>

#include "algorithms/blank_penalty.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/transducer/rows_on_host.h"
#include "base/error.h"
#include "base/nvtx.h"

namespace rtfx {

const OptionTable<FrameLoopingOptions>& FrameLoopingOptions::table() {
  using O = FrameLoopingOptions;
  static const OptionTable<O> table{{
      option("batched", &O::batched,
             "Decode the utterances of a batch together. `false`: one utterance after the other."),
      option("cache_predictor", &O::cache_predictor,
             "Keep the output of the prediction network until any utterance of the batch has a "
             "token. `false`: compute it for each joint call. Results are the same. `true` needs "
             "`loop` set to `host`."),
      option("project_encoder_once", &O::project_encoder_once,
             "Project the encoder frames for the joint network once per batch. `false`: in each "
             "joint call. Results are the same."),
      option("project_prediction_once", &O::project_prediction_once,
             "Project the prediction for the joint network once per prediction call. `false`: in "
             "each joint call. Results are the same."),
      max_symbols_option(&O::max_symbols),
      option("score_kind", &O::score_kind, kScoreKindHelp, {"logit", "logprob"}),
      option("compatibility", &O::compatibility,
             "Rule for TDT when `max_symbols` is reached. `none`: the search moves on a frame only "
             "after a duration of 0. `nemo`: always, as NeMo did until its pull request 16095 "
             "(inexact).",
             {"none", "nemo"}),
      option("host_reads", &O::host_reads, kHostReadsHelp, {"flag", "rows"}),
      option("count_rows", &O::count_rows, kCountRowsHelp),
      option("loop", &O::loop,
             "Execution of the loops. `host`: the CPU launches each step and waits for the GPU. "
             "`replay`: likewise, with steps as recorded CUDA graphs. `graph`: the GPU runs the "
             "loops as one CUDA graph.",
             {"host", "replay", "graph"}),
      option("lm", &O::lm, kGreedyLmHelp, greedy_lm_options()),
      option("boost", &O::boost, kBoostHelp, phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
  }};
  return table;
}

namespace {
const RegisterSkipping<FrameLooping> registered{
    "frame_looping",
    "Greedy search of RNN-T, TDT and multi-blank RNN-T, frame by frame; the baseline"};
}

struct FrameLooping::Rows {
  Rows(const Transducer& transducer, const GreedyLm& lm, DeviceBias bias, const at::Tensor& encoded,
       const at::Tensor& lengths, int64_t capacity)
      : encoded(encoded),
        lengths(lengths),
        state(transducer.initial_state(lengths.size(0))),
        last(at::full({lengths.size(0)}, transducer.blank(), lengths.options())),
        fusion(lm, lengths.size(0), std::move(bias)),
        hypotheses(encoded, lengths, transducer.is_tdt(), capacity),
        time(at::zeros_like(lengths)) {}

  at::Tensor encoded, lengths;
  PredictionState state;  // state before `last` is consumed
  at::Tensor last;        // [B] last token, blank at the start
  GreedyFusion fusion;
  BatchedHypotheses hypotheses;
  at::Tensor time;                                   // [B] next frame, for loop_skipping()
  std::optional<RowsOnHost> on_host;                 // replaces `hypotheses` in the form "rows"
  int64_t frame = 0;                                 // frame of all rows, for loop_rnnt()
  std::optional<Transducer::Prediction> prediction;  // for `last` and `state`; reset by a token

  void transfer(StateTransfer transfer) {
    fusion.transfer(transfer, lengths);
    transfer(last);
    transfer(time);
    state.for_each_tensor(transfer);
    hypotheses.transfer(transfer);
  }
};

Description FrameLooping::describe() const {
  using Exactness = Description::Exactness;
  return {"frame_looping",
          Head::transducer,
          options_.compatibility == "nemo" || uses_lm(options_.lm) || is_biased() ||
                  options_.blank_penalty != 0
              ? Exactness::approximate
              : Exactness::exact,
          {"rnnt", "tdt", "multiblank"},
          options_.score_kind,
          /*streams=*/true};
}

void FrameLooping::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  if (options_.loop != "host" && !options_.batched)
    throw UserError("frame_looping", "graphs are recorded for batches", "set \"batched\": true");
  if (options_.count_rows) require_host_loop("frame_looping", options_.loop);
  if (options_.loop != "host" && options_.cache_predictor)
    throw UserError("frame_looping", R"("cache_predictor" needs a host that drives the loops)",
                    R"(set "loop": "host")");
  if (options_.loop != "host" && options_.host_reads != "flag")
    throw UserError("frame_looping", "only a host that drives the loop can read rows",
                    R"(set "loop": "host")");
  lm_ = GreedyLm(options_.lm, *model);
  prepare_bias(*model, limits);
  transducer_.emplace(std::move(model),
                      Transducer::Options{options_.project_encoder_once,
                                          options_.project_prediction_once, options_.score_kind});
  options_.loop =
      prepare_loops(options_.loop, limits, transducer_->encoded_frame(),
                    [this](const at::Tensor& frames) { return transducer_->encode(frames); });
}

Counters FrameLooping::counts() const {
  Counters counts = {{"frames_visited", frames_visited_},
                     {"joint_calls", joint_calls_},
                     {"joint_rows", joint_rows_},
                     {"pred_calls", pred_calls_},
                     {"pred_rows", pred_rows_}};
  if (options_.count_rows) needed_.add_to(counts);
  return counts;
}

void FrameLooping::reset_counts() {
  frames_visited_ = joint_calls_ = joint_rows_ = pred_calls_ = pred_rows_ = 0;
  needed_.reset();
}

Hypotheses FrameLooping::decode(const EncodedBatch& batch) {
  if (options_.batched) return GreedySearch::decode(batch);
  reset_counts();
  select_bias(batch);
  return driver_.decode_one_by_one(batch);
}

Hypotheses FrameLooping::search(const EncodedBatch& batch, Loops& loops) {
  const bool recorded = options_.loop != "host";
  // A recorded search needs room for the longest possible result: nothing can grow in it.
  const int64_t frames = batch.frames.size(1);
  const int64_t capacity = recorded ? frames * options_.max_symbols : frames;
  std::optional<Rows> rows;
  loops.segment(RangeName::decode_init, [&] {
    rows.emplace(*transducer_, lm_, bias_.rows(batch.lengths.size(0)), batch.frames, batch.lengths,
                 capacity);
    if (options_.host_reads == "rows") rows->on_host.emplace(batch.lengths.size(0));
    if (options_.count_rows) needed_.prediction(batch.lengths > 0);
  });
  if (transducer_->skips_frames()) {
    loop_skipping(*rows, loops);
  } else if (recorded) {
    loop_rnnt_recorded(*rows, loops);
  } else {
    loop_rnnt(*rows, batch.longest());
  }
  if (rows->on_host) {
    const at::Tensor nan = driver_.reads().values(rows_with_nan(batch.frames, batch.lengths));
    return rows->on_host->result(transducer_->is_tdt(), nan);
  }
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back, [&] { result = rows->hypotheses.result(); });
  return result;
}

Hypotheses FrameLooping::search_piece(const EncodedBatch& batch, Loops& loops, RowState& state) {
  Rows rows(*transducer_, lm_, bias_.rows(batch.lengths.size(0)), batch.frames, batch.lengths,
            batch.frames.size(1));
  if (!state.empty()) rows.transfer(StateTransfer::load(state));
  transducer_->skips_frames() ? loop_skipping(rows, loops) : loop_rnnt(rows, batch.longest());
  rows.time.sub_(batch.lengths);
  state.clear();
  rows.transfer(StateTransfer::save(state));
  return rows.hypotheses.result();
}

Decision FrameLooping::evaluate(Rows& rows, const at::Tensor& encoded_rows,
                                const at::Tensor& needed) {
  if (!rows.prediction || !options_.cache_predictor) {
    rows.prediction = transducer_->predict(rows.last, rows.state);
    ++pred_calls_;
    pred_rows_ += rows.last.size(0);
  }
  if (options_.count_rows) needed_.joint(needed);
  ++joint_calls_;
  joint_rows_ += rows.last.size(0);
  return transducer_->decide(encoded_rows, rows.prediction->output, rows.fusion.bonus(),
                             rows.fusion.forbidden());
}

void FrameLooping::emit(Rows& rows, const at::Tensor& mask, const Decision& decision,
                        const at::Tensor& frames) {
  if (rows.on_host) {
    const auto only_if = [](bool wanted, const at::Tensor& t) { return wanted ? t : at::Tensor(); };
    rows.on_host->append(driver_.reads(), mask,
                         {.labels = decision.labels,
                          .scores = decision.scores,
                          .durations = only_if(transducer_->is_tdt(), decision.durations),
                          .frames = only_if(transducer_->skips_frames(), frames),
                          .frame = rows.frame});
  } else {
    rows.hypotheses.append(mask, decision.labels, frames, decision.durations, decision.scores);
  }
  if (options_.count_rows) needed_.prediction(mask);
  rows.fusion.append(decision.labels, mask);
  rows.state.take(mask, rows.prediction->state);
  at::where_out(rows.last, mask, decision.labels, rows.last);
  rows.prediction.reset();
}

void FrameLooping::loop_rnnt(Rows& rows, int64_t longest) {
  for (int64_t t = 0; t < longest; ++t) {
    const at::Tensor frame = at::full_like(rows.lengths, t);
    rows.frame = t;
    const at::Tensor encoded = rows.encoded.select(1, t);
    at::Tensor active = rows.lengths > t;
    ++frames_visited_;
    for (int64_t n = 0; n < options_.max_symbols; ++n) {
      const ScopedRange step(RangeName::decode_step, joint_calls_);
      const Decision decision = evaluate(rows, encoded, active);
      active = active.logical_and(decision.is_blank.logical_not());
      if (!driver_.reads().any(active)) break;
      emit(rows, active, decision, frame);
    }
  }
}

/// Runs the loops without a counter on the host. An iteration of the inner loop applies the
/// decision of the previous evaluation. So after max_symbols tokens there is one more evaluation,
/// which is not used.
void FrameLooping::loop_rnnt_recorded(Rows& rows, Loops& loops) {
  at::Tensor frame, left, active, spent, encoded;  // [B], encoded [B, X]
  Decision decision;
  PredictionState after;  // the state once the decision's token is consumed
  const auto evaluate_joint = [&] {
    const Transducer::Prediction prediction = transducer_->predict(rows.last, rows.state);
    const Decision next = transducer_->decide(encoded, prediction.output, rows.fusion.bonus(),
                                              rows.fusion.forbidden());
    at::logical_and_out(active, active, next.is_blank.logical_not());
    decision.labels.copy_(next.labels);
    decision.scores.copy_(next.scores);
    after.assign(prediction.state);
  };
  loops.segment(RangeName::decode_init, [&] {
    frame = at::zeros_like(rows.lengths);
    left = rows.lengths > 0;
    decision.labels = at::zeros_like(rows.lengths);
    const bool as_they_are = options_.score_kind == "logit" && !rows.fusion.bonus().defined();
    decision.scores =
        at::zeros({frame.size(0)},
                  as_they_are ? rows.encoded.options() : rows.encoded.options().dtype(at::kFloat));
    after = transducer_->initial_state(frame.size(0));
  });
  loops.while_any(left, [&] {
    loops.segment(RangeName::decode_frame, [&] {
      encoded = rows.encoded.index_select(1, frame.narrow(0, 0, 1)).squeeze(1);
      active = left.clone();
      spent = at::zeros_like(frame);
      evaluate_joint();
    });
    loops.while_any(active, [&] {
      loops.segment(RangeName::decode_step, [&] {
        rows.hypotheses.append(active, decision.labels, frame, {}, decision.scores);
        rows.fusion.append(decision.labels, active);
        rows.state.take(active, after);
        at::where_out(rows.last, active, decision.labels, rows.last);
        spent.add_(1);
        evaluate_joint();
        at::logical_and_out(active, active, spent < options_.max_symbols);
      });
    });
    loops.segment(RangeName::decode_frame, [&] {
      frame.add_(1);
      at::lt_out(left, frame, rows.lengths);
    });
  });
}

void FrameLooping::loop_skipping(Rows& rows, Loops& loops) {
  at::Tensor& time = rows.time;
  at::Tensor last_frame, used, active;  // used: symbols spent at the current frame
  loops.segment(RangeName::decode_init, [&] {
    used = at::zeros_like(time);
    last_frame = (rows.lengths - 1).clamp_min(0);
    active = time < rows.lengths;
  });
  const auto step = [&] {
    ++frames_visited_;
    const Decision decision =
        evaluate(rows, gather_frames(rows.encoded, at::minimum(time, last_frame)), active);
    const at::Tensor found = active.logical_and(decision.is_blank.logical_not());
    if (!options_.cache_predictor || driver_.reads().any(found)) emit(rows, found, decision, time);
    used.add_(1);
    time.add_(at::where(active, decision.durations, at::zeros_like(time)));
    const at::Tensor spent = used >= options_.max_symbols;
    const at::Tensor stuck = decision.durations == 0;
    at::Tensor forced = spent.logical_and(stuck);
    if (options_.compatibility == "nemo" && transducer_->is_tdt()) {
      // A blank of predicted duration 0 has moved one frame already, under either rule.
      const at::Tensor stepped = decision.is_blank.logical_and(decision.predicted == 0);
      forced = spent.logical_and(stepped.logical_not());
    }
    time.add_(forced.logical_and(active));
    used.mul_(stuck.logical_and(spent.logical_not()));
    at::lt_out(active, time, rows.lengths);
  };
  loops.while_any(active, [&] { loops.segment(RangeName::decode_step, step); });
}

}  // namespace rtfx
