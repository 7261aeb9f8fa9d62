#include "algorithms/decoders/beam/alsd_pp/alsd_pp.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/log_zero.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "base/error.h"

namespace rtfx {

const OptionTable<AlsdPpOptions>& AlsdPpOptions::table() {
  using O = AlsdPpOptions;
  static const OptionTable<O> table{fields_with<O>(
      TransducerBeamOptions::table(),
      {
          max_symbols_option(&O::max_symbols),
          option("window", &O::window,
                 "Number of frames of a hypothesis that one joint call evaluates (WIND). A value "
                 "above 1 needs an RNN-T model and `kernels` set to `operators`.",
                 1, 64),
          option("storage", &O::storage,
                 "Storage of the tokens of hypotheses. `tree`: hypotheses share their prefixes. "
                 "`flat`: each step copies all tokens, for comparison.",
                 {"tree", "flat"}),
          option("merge_by", &O::merge_by,
                 "Rule that finds hypotheses of equal tokens. `hash`: equal hashes. `tokens`: "
                 "comparison of all tokens, which needs `storage` set to `flat`.",
                 {"hash", "tokens"}),
          option("count_collisions", &O::count_collisions,
                 "Count pairs of hypotheses with equal hashes and different tokens. This costs "
                 "time. It needs `storage` set to `flat` and `loop` set to `host`."),
          option("merge_finished", &O::merge_finished,
                 "TDT: merge finished hypotheses of equal tokens, even if they jumped to different "
                 "frames behind the end of the utterance."),
          option("compatibility", &O::compatibility,
                 "Score of a blank that `max_symbols` forces, if `lm.pruning` is `early`. `none`: "
                 "its fused score. `nemo`: its acoustic score, as in NeMo. If `lm.alpha` and "
                 "`lm.beta` are 0, it is always the fused score, unlike in NeMo.",
                 {"none", "nemo"}),
      })};
  return table;
}

namespace {
const RegisterSkipping<AlsdPp> registered{
    "alsd_pp", "Batched beam search of RNN-T and TDT, synchronous in alignment length (ALSD++)"};
}

struct AlsdPp::State {
  State(TransducerBeams start, int64_t window)
      : beams(std::move(start)),
        window(window),
        origin(at::zeros_like(beams.lengths)),
        active(at::empty_like(beams.hypotheses.time, at::kBool)) {
    refresh();
  }

  TransducerBeams beams;
  int64_t window;
  at::Tensor origin;  // [B, 1] int64: position of this piece's frame 0 in its window
  at::Tensor active;  // [B, K] bool: the slot holds a hypothesis with a frame left
  bool more = false;  // more frames follow: an utterance waits if a hypothesis needs one of them

  void refresh() {
    const BeamHypotheses& h = beams.hypotheses;
    at::logical_and_out(active, h.alive(), h.time < beams.lengths);
    if (more) active.logical_and_(waits().logical_not());
  }

  /// Returns [B, K] int64: the frame behind the window of each hypothesis. Windows lie one after
  /// the other from the start of the utterance, and a hypothesis looks at the rest of its window.
  at::Tensor window_end() const {
    const at::Tensor& time = beams.hypotheses.time;
    return time + window - (time + origin).remainder(window);
  }

  /// Returns [B, 1] bool: utterances with a hypothesis that needs a later piece.
  at::Tensor waits() const {
    const at::Tensor alive = beams.hypotheses.alive();
    return alive.logical_and(window_end() > beams.lengths).any(1, /*keepdim=*/true);
  }

  /// Passes the state between two pieces to `transfer`.
  void transfer(StateTransfer transfer) {
    beams.transfer(transfer);
    transfer(origin);
  }

  /// Merges equal texts at equal frames. With `finished`, finished texts at different frames count
  /// as at equal ones. An utterance that waits for the next piece is not merged then, because it is
  /// not known yet which of its hypotheses have finished. It is merged when it goes on.
  void merge(bool finished) {
    BeamHypotheses& h = beams.hypotheses;
    if (!finished) {
      h.merge();
    } else if (!more) {
      h.merge_at(at::minimum(h.time, beams.lengths));
    } else {
      const at::Tensor before = h.scores.clone(), waiting = waits();
      h.merge();
      at::where_out(h.scores, waiting, before, h.scores);
    }
  }

  /// Returns [B] int64: the number of frames that no hypothesis needs any more.
  at::Tensor passed() const {
    const BeamHypotheses& h = beams.hypotheses;
    if (!more) return beams.lengths.squeeze(1);
    return at::minimum(at::where(h.alive(), h.time, beams.lengths), beams.lengths).amin(1);
  }
};

Description AlsdPp::describe() const {
  using Kinds = std::vector<std::string>;
  return {"alsd_pp",
          Head::transducer,
          Description::Exactness::approximate,
          options_.window == 1 ? Kinds{"rnnt", "tdt"} : Kinds{"rnnt"},
          kBeamScore,
          /*streams=*/true};
}

void AlsdPp::require_flat_options() const {
  const bool flat = options_.storage == "flat";
  if (!flat && (options_.merge_by == "tokens" || options_.count_collisions)) {
    throw UserError("alsd_pp", R"(only flat texts can be compared token by token)",
                    R"(set "storage": "flat")");
  }
  if (flat && (options_.kernels != "operators" || options_.window > 1)) {
    throw UserError("alsd_pp", "flat texts go with neither fused kernels nor windows",
                    R"(leave out "storage", or "kernels" and "window")");
  }
  if (options_.count_collisions && options_.loop != "host") {
    throw UserError("alsd_pp", R"("count_collisions" needs a host that drives the loop)",
                    R"(set "loop": "host")");
  }
}

void AlsdPp::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  if (options_.window > 1 && (model->config.is_tdt() || options_.kernels != "operators" ||
                              options_.compatibility != "none")) {
    throw UserError("alsd_pp",
                    "a window of several frames is for RNN-T models, and goes with neither fused "
                    "kernels nor NeMo's arithmetic",
                    R"(leave out "window", or "kernels" and "compatibility")");
  }
  require_flat_options();
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  require_beam_fits(describe(), options_.beam_size, *model);
  prepare_fusion(*model, limits);
  if (options_.kernels == "fused") fused_.emplace(model);
  transducer_.emplace(std::move(model), Transducer::Options{});
  options_.loop =
      prepare_loops(options_.loop, limits, transducer_->encoded_frame(),
                    [this](const at::Tensor& frames) { return transducer_->encode(frames); });
}

std::unique_ptr<Streams> AlsdPp::streams(const StreamLimits& limits) {
  if (options_.storage == "flat")
    throw UserError("alsd_pp", "flat texts are for whole utterances", R"(leave out "storage")");
  return BeamSearch::streams(limits);
}

Counters AlsdPp::counts() const {
  Counters counts = {{"outer_iters", steps_},
                     {"joint_calls", steps_},
                     {"joint_rows", joint_rows_},
                     {"pred_calls", steps_ + 1}};
  if (compared_) {
    const FlatTexts::Counts compared = compared_->counts();
    counts["merge_pairs"] = compared.pairs;
    counts["hash_collisions"] = compared.collisions;
    counts["wrong_merges"] = compared.wrong_merges;
  }
  return counts;
}

void AlsdPp::reset_counts() {
  steps_ = joint_rows_ = 0;
  compared_.reset();
}

AlsdPp::State AlsdPp::start(const EncodedBatch& batch, const BeamLm& lm) const {
  // A frame appends at most max_symbols tokens and a blank to each hypothesis. With windows, a step
  // appends two labels, and a hypothesis moves in time by blanks of several frames.
  const bool windows = options_.window > 1;
  const int64_t columns = batch.frames.size(1) * (options_.max_symbols + 1) * (windows ? 2 : 1);
  return {TransducerBeams(*transducer_, lm, batch.frames, batch.lengths, options_.beam_size,
                          columns, windows ? AlignmentRule::tdt : AlignmentRule::rnnt),
          options_.window};
}

Hypotheses AlsdPp::search(const EncodedBatch& batch, Loops& loops) {
  std::optional<State> state;
  std::optional<FusedStep> fused;
  loops.segment(RangeName::decode_init, [&] {
    const BeamLm lm = {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
    state.emplace(start(batch, lm));
    if (options_.storage == "flat") {
      state->beams.hypotheses.use_flat_texts(
          {options_.merge_by == "tokens", options_.count_collisions});
    }
    if (!fused_) return;
    const FusedStep::Options options{options_.max_symbols, options_.temperature,
                                     options_.merge_finished, options_.compatibility != "nemo"};
    fused.emplace(*fused_, lm, options, state->beams);
  });
  loops.while_any(fused ? fused->any_active : state->active, [&] {
    ++steps_;
    joint_rows_ += state->active.numel() * options_.window;
    loops.segment(RangeName::decode_step, [&] { fused ? (*fused)() : step(*state); });
  });
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back,
                [&] { result = state->beams.result(options_.nbest, options_.score_norm); });
  if (options_.count_collisions) compared_ = state->beams.hypotheses.texts;
  // With windows, hypotheses have durations. They count the frames of blanks, and no model
  // predicted them, so they are removed.
  if (options_.window > 1) {
    result.durations.reset();
    result.nbest.durations.reset();
  }
  return result;
}

std::vector<RowPiece> AlsdPp::search_piece(const EncodedBatch& batch, bool last, RowState& carried,
                                           HostReads& reads) {
  const BeamLm lm = {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
  State state = start(batch, lm);
  if (!carried.empty()) state.transfer(StateTransfer::load(carried));
  state.more = !last;
  state.merge(options_.merge_finished);
  state.refresh();
  const BeamPiece piece(state.beams.hypotheses);
  int64_t columns = 0;
  for (; reads.any(state.active); columns += options_.window > 1 ? 2 : 1) step(state);
  if (last) state.beams.end();
  const at::Tensor nan = rows_with_nan(batch.frames, batch.lengths), passed = state.passed();
  auto rows = read_pieces(state.beams.hypotheses, piece, columns, passed, nan, reads);
  if (options_.window > 1) {
    for (RowPiece& row : rows)
      for (RowPiece::Slot& slot : row.slots) slot.added.durations.clear();
  }
  state.origin.add_(passed.unsqueeze(1)).remainder_(options_.window);
  carried.clear();
  state.transfer(StateTransfer::save(carried));
  return rows;
}

void AlsdPp::step(State& state) const {
  TransducerBeams& beams = state.beams;
  BeamHypotheses& h = beams.hypotheses;
  const Expansions all = options_.window == 1 ? expand_frame(state) : expand_window(state);
  const Choice best = beams.choose(all.scores, all.labels, all.durations, state.active);
  if (options_.window == 1) {
    h.append(best.parents, best.labels, best.scores, best.durations);
  } else {
    // A step appends two labels to a hypothesis: a blank that moves to the label's frame, and a
    // token or none.
    const at::Tensor none = at::full_like(best.labels, -1);
    const at::Tensor blanks = at::where(best.labels < 0, 0, best.durations);
    h.append(best.parents, at::where(blanks > 0, h.blank, none), best.scores, blanks);
    const at::Tensor own = at::arange(h.beam, none.options()).expand_as(none);
    h.append(own, at::where(best.labels == h.blank, none, best.labels), best.scores,
             at::zeros_like(blanks));
  }
  state.merge(options_.merge_finished);
  beams.advance(best.parents, best.labels);
  state.refresh();
}

/// Returns the candidates of each hypothesis, [B, K, K]: labels at its frame.
Expansions AlsdPp::expand_frame(const State& state) const {
  const TransducerBeams& beams = state.beams;
  const BeamHypotheses& h = beams.hypotheses;
  const int64_t beam = options_.beam_size;
  const LogProbs next = beams.log_probs(h.time, options_.temperature);
  const at::Tensor fused = beams.fused(next);
  const Expansions all = beams.expand(next, fused, beam);

  // A hypothesis at its end has one candidate, itself. One with max_symbols tokens at its frame has
  // one candidate, a blank. Both stand in the first column.
  const at::Tensor forced = state.active.logical_and(h.run >= options_.max_symbols);
  const at::Tensor alone = forced.logical_or(state.active.logical_not()).unsqueeze(2);
  const at::Tensor only = at::where(forced, h.scores + forced_blank(next, fused), h.scores);
  const at::Tensor nothing = at::full({}, kLogZero, h.scores.options());
  const at::Tensor first = at::arange(beam, h.time.options()) == 0;
  const at::Tensor scores = at::where(alone, at::where(first, only.unsqueeze(2), nothing),
                                      h.scores.unsqueeze(2) + all.scores);
  const at::Tensor label = forced.to(at::kLong) * (h.blank + 1) - 1;  // blank, or -1
  const at::Tensor labels = at::where(alone, label.unsqueeze(2), all.labels);
  at::Tensor durations = all.durations;
  if (durations.defined()) {
    const at::Tensor likeliest = transducer_->duration_values().take(next.durations.argmax(2));
    durations = at::where(forced.unsqueeze(2), likeliest.clamp_min(1).unsqueeze(2), all.durations);
  }

  return {labels, scores, {}, durations};
}

/// Returns the candidates of each hypothesis, [B, K, K]: tokens at any frame of its window, or one
/// blank that stands for blanks up to the end of the window. The durations count the blanks,
/// including those before a token.
Expansions AlsdPp::expand_window(const State& state) const {
  const TransducerBeams& beams = state.beams;
  const BeamHypotheses& h = beams.hypotheses;
  const int64_t window = options_.window, labels = h.blank + 1;
  const at::Tensor position = at::arange(window, h.time.options());
  const at::Tensor frames = h.time.unsqueeze(2) + position;  // [B, K, W]
  const at::Tensor end = at::minimum(state.window_end(), beams.lengths).unsqueeze(2);
  const at::Tensor full = (h.run >= options_.max_symbols).unsqueeze(2).logical_and(position == 0);
  const at::Tensor no_token = (frames >= end).logical_or(full), no_blank = frames + 1 != end;

  // Adds the scores of the blanks before each frame of the window, and masks labels that are no
  // candidates.
  const auto along_window = [&](const at::Tensor& by_frame) {  // [B, K, W, V+1] -> [B, K, W (V+1)]
    const at::Tensor blanks = by_frame.select(3, h.blank).narrow(2, 0, window - 1).cumsum(2);
    const at::Tensor sums = by_frame + at::constant_pad_nd(blanks, {1, 0}).unsqueeze(3);
    sums.narrow(3, 0, h.blank).masked_fill_(no_token.unsqueeze(3), kLogZero);
    sums.select(3, h.blank).masked_fill_(no_blank, kLogZero);
    return sums.flatten(2);
  };
  const LogProbs next = beams.log_probs(frames, options_.temperature);
  const at::Tensor fused = beams.fused(next), acoustic = along_window(next.labels);
  const at::Tensor total = fused.is_same(next.labels) ? acoustic : along_window(fused);
  const Expansions all = beams.expand({acoustic, {}}, total, options_.beam_size);

  // A hypothesis at its end has one candidate, itself.
  const at::Tensor active = state.active.unsqueeze(2), own = h.scores.unsqueeze(2);
  const at::Tensor nothing = at::full({}, kLogZero, own.options());
  const at::Tensor first = at::arange(options_.beam_size, h.time.options()) == 0;
  const at::Tensor label = all.labels.remainder(labels);
  return {label.masked_fill(active.logical_not(), -1),
          at::where(active, own + all.scores, at::where(first, own, nothing)),
          {},
          all.labels.div(labels, "floor") + (label == h.blank)};
}

/// Returns the score of blank where it is the only candidate, [B, K].
at::Tensor AlsdPp::forced_blank(const LogProbs& next, const at::Tensor& fused) const {
  const LmOptions* lm = lm_options();
  const bool acoustic = options_.compatibility == "nemo" && lm != nullptr && lm->pruning == "early";
  const at::Tensor blank = (acoustic ? next.labels : fused).select(2, transducer_->blank());
  return next.durations.defined() ? blank + next.durations.amax(2) : blank;
}

}  // namespace rtfx
