#include "algorithms/decoders/beam/modified_beam_search/modified_beam_search.h"

#include "algorithms/blank_penalty.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/skipping/blank_skipping.h"

namespace rtfx {

namespace {
const RegisterSkipping<ModifiedBeamSearch> registered{
    "modified_beam_search",
    "Batched beam search of RNN-T and TDT with at most one token per frame"};
}

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

MonotonicBeams ModifiedBeamSearch::beams_of(const EncodedBatch& batch, const BeamLm& lm) const {
  // A step moves an utterance's earliest frame, so there are no more steps than frames.
  return {TransducerBeams(*transducer_, lm, batch.frames, batch.lengths, options_.beam_size,
                          batch.frames.size(1), AlignmentRule::monotonic),
          options_.temperature};
}

Hypotheses ModifiedBeamSearch::search(const EncodedBatch& batch, Loops& loops) {
  std::optional<MonotonicBeams> state;
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
    loops.segment(RangeName::decode_step, [&] { fused ? (*fused)() : state->step(); });
  });
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back,
                [&] { result = state->result(options_.nbest, options_.score_norm); });
  return result;
}

std::vector<RowPiece> ModifiedBeamSearch::search_piece(const EncodedBatch& batch, bool last,
                                                       RowState& state, HostReads& reads) {
  return beams_of(batch, beam_lm(batch)).piece(batch, last, state, reads);
}

}  // namespace rtfx
