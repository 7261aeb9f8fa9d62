#include "algorithms/decoders/beam/alsd_pp/alsd_pp.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/skipping/blank_skipping.h"

namespace rtfx {

const OptionTable<AlsdPpOptions>& AlsdPpOptions::table() {
  using O = AlsdPpOptions;
  static const OptionTable<O> table{fields_with<O>(
      TransducerBeamOptions::table(),
      {
          option("max_symbols", &O::max_symbols, "tokens per frame", 1, 1000),
          option("merge_finished", &O::merge_finished,
                 "TDT: add up equal texts that end at different frames"),
          option(
              "compatibility", &O::compatibility,
              "nemo: with early pruning, a blank after max_symbols tokens is not fused, as in NeMo",
              {"none", "nemo"}),
      })};
  return table;
}

namespace {
const RegisterSkipping<AlsdPp> registered{
    "alsd_pp", "beam search RNN-T/TDT, batched: alignment-length synchronous (ALSD++)"};
}

struct AlsdPp::State {
  explicit State(TransducerBeams start)
      : beams(std::move(start)), active(at::empty_like(beams.hypotheses.time, at::kBool)) {
    refresh();
  }

  TransducerBeams beams;
  at::Tensor active;  // [B, K] bool: the slot holds a hypothesis with a frame left
  bool more = false;  // more frames follow: an utterance waits if a hypothesis needs one of them

  void refresh() {
    const BeamHypotheses& h = beams.hypotheses;
    at::logical_and_out(active, h.alive(), h.time < beams.lengths);
    if (more) active.logical_and_(waits().logical_not());
  }

  /// Returns [B, 1] bool: utterances with a hypothesis that needs a later piece.
  at::Tensor waits() const {
    const BeamHypotheses& h = beams.hypotheses;
    return h.alive().logical_and(h.time >= beams.lengths).any(1, /*keepdim=*/true);
  }

  /// Merges equal texts. While an utterance waits, nobody knows whether two of its hypotheses have
  /// finished. So it is merged when it goes on, and all equal texts are merged at once.
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
  return {"alsd_pp",       Head::transducer, Description::Exactness::approximate,
          {"rnnt", "tdt"}, kBeamScore,
          /*streams=*/true};
}

void AlsdPp::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
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

Counters AlsdPp::counts() const {
  return {{"outer_iters", steps_}, {"joint_calls", steps_}, {"pred_calls", steps_ + 1}};
}

void AlsdPp::reset_counts() { steps_ = 0; }

Hypotheses AlsdPp::search(const EncodedBatch& batch, Loops& loops) {
  std::optional<State> state;
  std::optional<FusedStep> fused;
  loops.segment(RangeName::decode_init, [&] {
    // A frame appends at most max_symbols tokens and a blank to each hypothesis.
    const int64_t columns = batch.frames.size(1) * (options_.max_symbols + 1);
    const BeamLm lm = {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
    state.emplace(TransducerBeams(*transducer_, lm, batch.frames, batch.lengths, options_.beam_size,
                                  columns));
    if (!fused_) return;
    const FusedStep::Options options{options_.max_symbols, options_.temperature,
                                     options_.merge_finished, options_.compatibility != "nemo"};
    fused.emplace(*fused_, lm, options, state->beams);
  });
  loops.while_any(fused ? fused->any_active : state->active, [&] {
    ++steps_;
    loops.segment(RangeName::decode_step, [&] { fused ? (*fused)() : step(*state); });
  });
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back,
                [&] { result = state->beams.result(options_.nbest, options_.score_norm); });
  return result;
}

std::vector<RowPiece> AlsdPp::search_piece(const EncodedBatch& batch, bool last, RowState& carried,
                                           HostReads& reads) {
  const BeamLm lm = {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
  State state(TransducerBeams(*transducer_, lm, batch.frames, batch.lengths, options_.beam_size,
                              batch.frames.size(1) * (options_.max_symbols + 1)));
  if (!carried.empty()) {
    StateTransfer load = StateTransfer::load(carried);
    state.beams.transfer(load);
  }
  state.more = !last;
  state.merge(options_.merge_finished);
  state.refresh();
  const BeamPiece piece(state.beams.hypotheses);
  int64_t columns = 0;
  for (; reads.any(state.active); ++columns) step(state);
  if (last) state.beams.end();
  const at::Tensor nan = rows_with_nan(batch.frames, batch.lengths);
  auto rows = read_pieces(state.beams.hypotheses, piece, columns, state.passed(), nan, reads);
  carried.clear();
  StateTransfer save = StateTransfer::save(carried);
  state.beams.transfer(save);
  return rows;
}

void AlsdPp::step(State& state) {
  TransducerBeams& beams = state.beams;
  BeamHypotheses& h = beams.hypotheses;
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

  const Choice best = beams.choose(scores, labels, durations, state.active);
  h.append(best.parents, best.labels, best.scores, best.durations);
  state.merge(options_.merge_finished);
  beams.advance(best.parents, best.labels);
  state.refresh();
}

/// Returns the score of blank where it is the only candidate, [B, K].
at::Tensor AlsdPp::forced_blank(const LogProbs& next, const at::Tensor& fused) const {
  const bool acoustic =
      options_.compatibility == "nemo" && options_.lm && options_.lm->pruning == "early";
  const at::Tensor blank = (acoustic ? next.labels : fused).select(2, transducer_->blank());
  return next.durations.defined() ? blank + next.durations.amax(2) : blank;
}

}  // namespace rtfx
