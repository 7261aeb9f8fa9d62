#include "algorithms/decoders/beam/modified_beam_search/modified_beam_search.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/skipping/blank_skipping.h"

namespace rtfx {

namespace {
const RegisterSkipping<ModifiedBeamSearch> registered{
    "modified_beam_search", "beam search RNN-T/TDT, batched: one token per frame at most"};
}

struct ModifiedBeamSearch::State {
  explicit State(TransducerBeams start)
      : beams(std::move(start)), open(at::empty_like(beams.hypotheses.time, at::kBool)) {
    refresh();
  }

  TransducerBeams beams;
  at::Tensor open;  // [B, K] bool: the hypothesis gets a label in the next step

  /// Finds the hypotheses at the earliest frame of their utterance. Those of RNN-T are all there.
  void refresh() {
    const BeamHypotheses& h = beams.hypotheses;
    const at::Tensor alive = h.alive();
    at::logical_and_out(open, alive, h.time < beams.lengths);
    if (h.lattice != Lattice::tdt) return;
    const at::Tensor earliest = at::where(alive, h.time, beams.lengths).amin(1, /*keepdim=*/true);
    open.logical_and_(h.time == earliest);
  }

  /// Merges finished texts. Those of RNN-T were merged when they finished, at the same frame.
  void merge_finished() {
    BeamHypotheses& h = beams.hypotheses;
    if (h.lattice == Lattice::tdt) h.merge_at(beams.lengths.expand_as(h.time));
  }
};

Description ModifiedBeamSearch::describe() const {
  return {"modified_beam_search", Head::transducer,    Description::Exactness::approximate,
          {"rnnt", "tdt"},        kMonotonicBeamScore,
          /*streams=*/true};
}

void ModifiedBeamSearch::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
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

Counters ModifiedBeamSearch::counts() const {
  return {{"outer_iters", steps_}, {"joint_calls", steps_}, {"pred_calls", steps_ + 1}};
}

void ModifiedBeamSearch::reset_counts() { steps_ = 0; }

BeamLm ModifiedBeamSearch::beam_lm(const EncodedBatch& batch) {
  return {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
}

TransducerBeams ModifiedBeamSearch::beams_of(const EncodedBatch& batch, const BeamLm& lm) const {
  // A step moves an utterance's earliest frame, so there are no more steps than frames.
  return {
      *transducer_,      lm, batch.frames, batch.lengths, options_.beam_size, batch.frames.size(1),
      Lattice::monotonic};
}

Hypotheses ModifiedBeamSearch::search(const EncodedBatch& batch, Loops& loops) {
  std::optional<State> state;
  std::optional<FusedStep> fused;
  loops.segment(RangeName::decode_init, [&] {
    const BeamLm lm = beam_lm(batch);
    state.emplace(beams_of(batch, lm));
    if (!fused_) return;
    FusedStep::Options options{/*max_symbols=*/1, options_.temperature, /*merge_finished=*/false,
                               /*fuses_forced_blank=*/true};
    options.one_label_per_frame = true;
    options.decoder = "modified_beam_search";
    fused.emplace(*fused_, lm, options, state->beams);
  });
  loops.while_any(fused ? fused->any_active : state->open, [&] {
    ++steps_;
    loops.segment(RangeName::decode_step, [&] { fused ? (*fused)() : step(*state); });
  });
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back, [&] {
    state->merge_finished();
    result = state->beams.result(options_.nbest, options_.score_norm);
  });
  return result;
}

std::vector<RowPiece> ModifiedBeamSearch::search_piece(const EncodedBatch& batch, bool last,
                                                       RowState& carried, HostReads& reads) {
  State state(beams_of(batch, beam_lm(batch)));
  if (!carried.empty()) {
    StateTransfer load = StateTransfer::load(carried);
    state.beams.transfer(load);
    state.refresh();
  }
  const BeamPiece piece(state.beams.hypotheses);
  int64_t columns = 0;
  for (; reads.any(state.open); ++columns) step(state);
  if (last) {
    state.merge_finished();
    state.beams.end();
  }
  // Hypotheses that jumped beyond the piece wait for its end, and then none of its frames is
  // needed.
  auto rows = read_pieces(state.beams.hypotheses, piece, columns, batch.lengths,
                          rows_with_nan(batch.frames, batch.lengths), reads);
  carried.clear();
  StateTransfer save = StateTransfer::save(carried);
  state.beams.transfer(save);
  return rows;
}

void ModifiedBeamSearch::step(State& state) const {
  TransducerBeams& beams = state.beams;
  BeamHypotheses& h = beams.hypotheses;
  const LogProbs next = beams.log_probs(h.time, options_.temperature);
  const Expansions all = beams.expand(next, beams.fused(next), options_.beam_size);

  // A hypothesis that waits or has finished has one candidate, itself, in the first column.
  const at::Tensor own = h.scores.unsqueeze(2), open = state.open.unsqueeze(2);
  const at::Tensor nothing = at::full({}, kLogZero, h.scores.options());
  const at::Tensor first = at::arange(options_.beam_size, h.time.options()) == 0;
  const at::Tensor scores = at::where(open, own + all.scores, at::where(first, own, nothing));
  const at::Tensor labels = all.labels.masked_fill(open.logical_not(), -1);
  const at::Tensor durations = all.durations.defined() ? all.durations.clamp_min(1) : all.durations;

  const Choice best = beams.choose(scores, labels, durations, state.open);
  h.append(best.parents, best.labels, best.scores, best.durations);
  h.merge();
  beams.advance(best.parents, best.labels);
  state.refresh();
}

}  // namespace rtfx
