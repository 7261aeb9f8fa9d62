#include "algorithms/decoders/greedy/label_looping/label_looping.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "base/error.h"

namespace rtfx {

const OptionTable<LabelLoopingOptions>& LabelLoopingOptions::table() {
  using O = LabelLoopingOptions;
  static const OptionTable<O> table{{
      option("window", &O::window,
             "Number of frames of each utterance that one joint call evaluates. Results do not "
             "depend on it.",
             1, 64),
      option("project_encoder_once", &O::project_encoder_once,
             "Project the encoder frames for the joint network once per batch. `false`: in each "
             "joint call. Results are the same."),
      option("project_prediction_once", &O::project_prediction_once,
             "Project the prediction for the joint network once per token. `false`: in each joint "
             "call. Results are the same."),
      max_symbols_option(&O::max_symbols),
      option("score_kind", &O::score_kind, kScoreKindHelp, {"logit", "logprob"}),
      option("count_rows", &O::count_rows, kCountRowsHelp),
      option("loop", &O::loop,
             "Execution of the loops. `host`: the CPU launches each step and waits for the GPU. "
             "`script`: LibTorch's TorchScript interpreter does so. `replay`: steps are recorded "
             "CUDA graphs. `graph`: the GPU runs the loops as one CUDA graph.",
             {"host", "script", "replay", "graph"}),
      option("lm", &O::lm, kGreedyLmHelp, greedy_lm_options()),
      option("boost", &O::boost, kBoostHelp, phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
  }};
  return table;
}

namespace {
const RegisterSkipping<LabelLooping> registered{
    "label_looping", "Greedy search of RNN-T, TDT and multi-blank RNN-T, label by label"};
}

struct LabelLooping::Rows {
  Rows(const Transducer& transducer, const GreedyLm& lm, DeviceBias bias, const at::Tensor& encoded,
       const at::Tensor& lengths, int64_t capacity)
      : encoded(encoded),
        lengths(lengths),
        last((lengths - 1).clamp_min(0)),
        time(at::zeros_like(lengths)),
        active(lengths > 0),
        prediction(transducer.start(lengths.size(0))),
        fusion(lm, lengths.size(0), std::move(bias)),
        hypotheses(encoded, lengths, transducer.is_tdt(), capacity) {}

  at::Tensor encoded;  // [B, T', X]
  at::Tensor lengths;  // [B]
  at::Tensor last;     // [B] last valid frame
  at::Tensor time;     // [B] frame to look at next
  at::Tensor active;   // [B] bool, time < length
  Transducer::Prediction prediction;
  GreedyFusion fusion;
  BatchedHypotheses hypotheses;

  void transfer(StateTransfer transfer) {
    fusion.transfer(transfer, lengths);
    transfer(time);
    transfer(prediction.output);
    prediction.state.for_each_tensor(transfer);
    hypotheses.transfer(transfer);
  }
  void load(const RowState& state) {
    transfer(StateTransfer::load(state));
    at::lt_out(active, time, lengths);
  }
  /// Saves the state, whose times count from the start of the next piece.
  void save(RowState& state) {
    time.sub_(lengths);
    hypotheses.shift(lengths);
    state.clear();
    transfer(StateTransfer::save(state));
  }
};

/// The next label of each row that was active, or blank if it has none. `durations` and `frames`
/// stay undefined except for TDT. Other tokens have no duration and do not move in time, so their
/// frame is the row's time.
struct LabelLooping::Found {
  at::Tensor searching;  // [B] bool, rows without a label so far
  at::Tensor labels, scores, durations, frames;
};

Description LabelLooping::describe() const {
  using Exactness = Description::Exactness;
  return {"label_looping",
          Head::transducer,
          uses_lm(options_.lm) || is_biased() || options_.blank_penalty != 0
              ? Exactness::approximate
              : Exactness::exact,
          {"rnnt", "tdt", "multiblank"},
          options_.score_kind,
          /*streams=*/true};
}

void LabelLooping::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  if (options_.count_rows) {
    require_host_loop("label_looping", options_.loop);
    if (options_.window != 1) {
      throw UserError("label_looping", R"("count_rows" does not know the frames of a window)",
                      R"(set "window": 1)");
    }
  }
  lm_ = GreedyLm(options_.lm, *model);
  prepare_bias(*model, limits);
  transducer_.emplace(
      model, Transducer::Options{options_.project_encoder_once, options_.project_prediction_once,
                                 options_.score_kind});
  const auto encode = [this](const at::Tensor& frames) { return transducer_->encode(frames); };
  if (options_.loop == "script") {
    if (options_.window != 1 || lm_ || bias_.rows(1).has_any() || !options_.project_encoder_once ||
        !options_.project_prediction_once) {
      throw UserError(
          "label_looping",
          R"("loop": "script" knows no window, language model, boosted phrases, allowed )"
          "characters or projection per call",
          "leave those options out, or choose another loop");
    }
    script_.emplace(model, options_.max_symbols, options_.score_kind == "logprob");
    prepare_loops("host", limits, transducer_->encoded_frame(), encode);
    return;
  }
  options_.loop = prepare_loops(options_.loop, limits, transducer_->encoded_frame(), encode);
}

Hypotheses LabelLooping::run_script(const EncodedBatch& batch) {
  LabelLoopingScript::Result result = script_->run(batch);
  outer_ = result.outer;
  inner_ = result.inner;
  joint_calls_ = outer_ + inner_;
  joint_rows_ = joint_calls_ * batch.lengths.size(0);
  pred_calls_ = outer_ + 1;
  pred_rows_ = pred_calls_ * batch.lengths.size(0);
  return std::move(result.hypotheses);
}

Counters LabelLooping::counts() const {
  Counters counts = {{"joint_calls", joint_calls_}, {"joint_rows", joint_rows_},
                     {"pred_calls", pred_calls_},   {"pred_rows", pred_rows_},
                     {"outer_iters", outer_},       {"inner_iters", inner_}};
  if (options_.count_rows) needed_.add_to(counts);
  return counts;
}

Counters LabelLooping::counters() const {
  Counters all = GreedySearch::counters();
  // The TorchScript program waits by itself, which the driver does not see.
  if (script_) all["host_reads"] = 1 + 2 * outer_ + inner_;
  return all;
}

void LabelLooping::reset_counts() {
  joint_calls_ = joint_rows_ = pred_calls_ = pred_rows_ = outer_ = inner_ = 0;
  needed_.reset();
}

Hypotheses LabelLooping::search(const EncodedBatch& batch, Loops& loops) {
  return script_ ? run_script(batch) : search_rows(batch, loops, nullptr);
}

Hypotheses LabelLooping::search_rows(const EncodedBatch& batch, Loops& loops, RowState* piece) {
  // In the paper, the room for tokens is proportional to the audio at first, and doubles when it is
  // full. In a recorded search it cannot grow, so there is room for the longest result.
  const int64_t frames = batch.frames.size(1);
  const bool grows = options_.loop == "host" || piece != nullptr;
  const int64_t capacity = grows ? frames : frames * options_.max_symbols;
  std::optional<Rows> rows;
  loops.segment(RangeName::decode_init, [&] {
    rows.emplace(*transducer_, lm_, bias_.rows(batch.lengths.size(0)), batch.frames, batch.lengths,
                 capacity);
    if (piece != nullptr && !piece->empty()) rows->load(*piece);
    ++pred_calls_;
    pred_rows_ += batch.lengths.size(0);
    if (options_.count_rows) needed_.prediction(rows->active);
  });
  Found next;
  loops.while_any(rows->active, [&] {
    ++outer_;
    loops.segment(RangeName::decode_joint, [&] { evaluate_joint(*rows, next, /*first=*/true); });
    loops.while_any(next.searching, [&] {
      ++inner_;
      loops.segment(RangeName::decode_joint, [&] { evaluate_joint(*rows, next, /*first=*/false); });
    });
    loops.segment(RangeName::decode_predict, [&] { step(*rows, next); });
  });
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back, [&] { result = rows->hypotheses.result(); });
  if (piece != nullptr) rows->save(*piece);
  return result;
}

/// Appends the labels that were found and takes their rows' next prediction.
void LabelLooping::step(Rows& rows, const Found& next) {
  // This is not rows.active, because a TDT token's own duration may just have ended the utterance.
  const at::Tensor found = next.labels != transducer_->blank();
  rows.hypotheses.append(found, next.labels, transducer_->is_tdt() ? next.frames : rows.time,
                         next.durations, next.scores);
  rows.fusion.append(next.labels);
  const Transducer::Prediction stepped = transducer_->predict(next.labels, rows.prediction.state);
  ++pred_calls_;
  pred_rows_ += found.size(0);
  if (options_.count_rows) needed_.prediction(found);
  at::Tensor& output = rows.prediction.output;
  at::where_out(output, found.unsqueeze(1), stepped.output, output);
  rows.prediction.state.take(found, stepped.state);
  rows.time.add_(rows.hypotheses.at_limit(rows.time, options_.max_symbols).logical_and(found));
  at::lt_out(rows.active, rows.time, rows.lengths);
}

/// Makes one joint call. On a GPU this loop takes as long as the host's launches, so there are few
/// of them. The first call of an outer iteration creates the tensors of `found`, and the other
/// calls change them in place.
void LabelLooping::evaluate_joint(Rows& rows, Found& found, bool first) {
  if (first) found = {rows.active, {}, {}, {}, {}};
  if (options_.count_rows) needed_.joint(found.searching);
  at::Tensor skipped;  // blank frames before the decision, with a window
  const Decision decision =
      options_.window > 1
          ? decide_window(rows, skipped)
          : transducer_->decide(gather_frames(rows.encoded, at::minimum(rows.time, rows.last)),
                                rows.prediction.output, rows.fusion.bonus(),
                                rows.fusion.forbidden());
  ++joint_calls_;
  joint_rows_ += rows.time.size(0) * options_.window;
  const auto keep = [&](at::Tensor& kept, const at::Tensor& taken) {
    first ? void(kept = taken) : void(at::where_out(kept, found.searching, taken, kept));
  };
  if (first) {
    found.labels = decision.labels.masked_fill(found.searching.logical_not(), transducer_->blank());
  } else {
    keep(found.labels, decision.labels);
  }
  keep(found.scores, decision.scores);
  const at::Tensor frames = skipped.defined() ? rows.time + skipped : rows.time;
  if (transducer_->is_tdt()) {
    keep(found.frames, first && !skipped.defined() ? frames.clone() : frames);
    keep(found.durations, decision.durations);
  }
  const at::Tensor blank_here = found.searching.logical_and(decision.is_blank);
  const bool one_frame_at_most = !transducer_->skips_frames() && !skipped.defined();
  if (one_frame_at_most) {
    rows.time.add_(blank_here);
  } else {
    at::where_out(rows.time, found.searching, frames + decision.durations, rows.time);
  }
  if (first) {
    found.searching = blank_here.logical_and(rows.time < rows.lengths);
  } else {
    at::logical_and_out(found.searching, blank_here, rows.time < rows.lengths);
  }
}

/// Returns the first decision of each row that is not blank within its next `window` frames. Before
/// it come `skipped` frames of blanks. Where there is none, it returns a blank that leads behind
/// the last frame reached.
Decision LabelLooping::decide_window(const Rows& rows, at::Tensor& skipped) {
  const int64_t window = options_.window;
  const at::Tensor offsets = at::arange(window, rows.time.options()).unsqueeze(0);  // [1, W]
  const at::Tensor frames = rows.time.unsqueeze(1) + offsets;                       // [B, W]
  const at::Tensor index = at::minimum(frames, rows.last.unsqueeze(1))
                               .unsqueeze(2)
                               .expand({-1, -1, rows.encoded.size(2)});
  const auto per_frame = [](const at::Tensor& t) { return t.defined() ? t.unsqueeze(1) : t; };
  const Decision all =
      transducer_->decide(rows.encoded.gather(1, index), rows.prediction.output.unsqueeze(1),
                          per_frame(rows.fusion.bonus()), per_frame(rows.fusion.forbidden()));

  const at::Tensor inside = frames < rows.lengths.unsqueeze(1);
  at::Tensor position;  // [B] column of the decision; a jump may lead beyond the window
  if (transducer_->skips_frames()) {
    // Blanks jump, so this follows the chain of durations over the evaluated columns.
    position = at::zeros_like(rows.time);
    const at::Tensor step =
        at::where(all.is_blank.logical_and(inside), all.durations, at::zeros_like(all.durations));
    for (int64_t i = 0; i + 1 < window; ++i) {
      const at::Tensor column = position.clamp_max(window - 1).unsqueeze(1);
      const at::Tensor jump = step.gather(1, column).squeeze(1);
      position = at::where(position < window, position + jump, position);
    }
  } else {
    const at::Tensor stops = all.is_blank.logical_and(inside).logical_not();
    const auto [any, first] = stops.to(at::kInt).max(1);
    position = at::where(any > 0, first, at::full_like(first, window - 1));
  }
  const at::Tensor column = position.clamp_max(window - 1).unsqueeze(1);
  const auto pick = [&](const at::Tensor& values) { return values.gather(1, column).squeeze(1); };
  // A row that jumped beyond the window, or whose utterance has ended, has no decision. It gets a
  // blank of duration 0.
  const at::Tensor undecided = (position >= window).logical_or(pick(inside).logical_not());
  skipped = position;
  return {pick(all.labels).masked_fill(undecided, transducer_->blank()),
          pick(all.scores),
          pick(all.durations).masked_fill(undecided, 0),
          {},
          pick(all.is_blank).logical_or(undecided)};
}

}  // namespace rtfx
