#include "algorithms/decoders/beam/ctc_beam/ctc_beam.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/log_zero.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/beams/top_k.h"
#include "algorithms/shared/fused_beam/ctc_phases.h"
#include "algorithms/shared/fused_beam/fused_search.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/transducer/transducer.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/score_dtype.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

/// Returns the options of a beam search without those of blank scoring and pruning. CTC does not
/// rescore blank, and all labels are candidates.
const OptionTable<LmOptions>& ctc_lm_options() {
  static const OptionTable<LmOptions> table = [] {
    OptionTable<LmOptions> all = beam_lm_options();
    std::erase_if(all.fields, [](const OptionField<LmOptions>& field) {
      return field.name == "blank_scoring" || field.name == "blank_eps" || field.name == "pruning";
    });
    return all;
  }();
  return table;
}

}  // namespace

const OptionTable<CtcBeamOptions>& CtcBeamOptions::table() {
  using O = CtcBeamOptions;
  static const OptionTable<O> table{{
      option("beam_size", &O::beam_size, kBeamSizeHelp, 1, 1000),
      option("beam_threshold", &O::beam_threshold,
             "A hypothesis is dropped if its score, a natural logarithm, is lower than the best "
             "score by this value or more.",
             1e-3, 1e6),
      option("merge", &O::merge,
             "Probability of a text. `sum`: the sum over its alignments. `max`: the probability of "
             "its best alignment, as in NeMo's `beam_batch`.",
             {"sum", "max"}),
      option("temperature", &O::temperature, kTemperatureHelp, 1e-3, 1e3),
      option("score_norm", &O::score_norm, kScoreNormHelp),
      option("nbest", &O::nbest, kNbestHelp, 1, 1000),
      mbr_option(&O::mbr),
      option("lm", &O::lm,
             "N-gram language model over tokens. Its score is added to each new token (shallow "
             "fusion).",
             ctc_lm_options()),
      option("boost", &O::boost, kBoostHelp, phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
      option("lm_end", &O::lm_end, "Add the language model's score of the end of the text."),
      option("kernels", &O::kernels,
             "Implementation of the search. `operators`: operators of LibTorch for each frame. "
             "`fused`: one kernel for all frames, with equal results up to rounding.",
             {"operators", "fused"}),
      option("loop", &O::loop, kLoopHelp, {"host", "graph"}),
  }};
  return table;
}

namespace {
const RegisterSkipping<CtcBeam> registered{"ctc_beam", "Batched prefix beam search of a CTC head"};
}

struct CtcBeam::State {
  State(const at::Tensor& log_probs, const at::Tensor& lengths, int64_t beam, DeviceBias rows)
      : beams(AlignmentRule::ctc, log_probs.size(0), beam, log_probs.size(1), log_probs.size(2) - 1,
              log_probs.options()),
        log_probs(log_probs),
        lengths(lengths.unsqueeze(1)),
        frame(at::zeros({1}, lengths.options())),
        active(frame < this->lengths),
        first_slot((at::arange(lengths.size(0), lengths.options()) * beam).unsqueeze(1)),
        bias(std::move(rows)) {
    if (bias.has_models()) bias_states = bias.initial_states();
  }

  BeamHypotheses beams;
  at::Tensor log_probs;    // [B, T', V+1] of score_dtype()
  at::Tensor lengths;      // [B, 1]
  at::Tensor frame;        // [1] int64
  at::Tensor active;       // [B, 1] bool: utterances with a frame left
  at::Tensor first_slot;   // [B, 1] int64, b * K: an utterance's first index in lm_states
  at::Tensor lm_states;    // [B * K] int32, undefined without a language model
  DeviceBias bias;         // B * K rows
  at::Tensor bias_states;  // [B * K] int32, undefined without contextual biasing

  void transfer(StateTransfer transfer) {
    transfer.or_zeros(bias_states, lengths, beams.beam);
    beams.transfer(transfer);
    transfer(lm_states, 0, beams.beam);
  }
};

Description CtcBeam::describe() const {
  return {"ctc_beam", Head::ctc,  Description::Exactness::approximate,
          {"ctc"},    kBeamScore, /*streams=*/true};
}

void CtcBeam::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  prepare_fusion(*model, limits);
  model_ = std::move(model);
  if (options_.kernels == "fused") {
    precision_of(model_->dtype, R"(ctc_beam with "kernels": "fused")");
    fused_beam::CtcFrames frames{};
    frames.beams.beam = static_cast<int32_t>(options_.beam_size);
    fused_beam::require_fits(model_->device, "ctc_beam",
                             fmt::format("a beam of {}", options_.beam_size),
                             "choose a smaller beam_size, or \"kernels\": \"operators\"", frames);
  }
  const auto logits = at::TensorOptions(model_->dtype).device(model_->device);
  options_.loop =
      prepare_loops(options_.loop, limits, at::empty({1, 1, model_->config.vocabulary + 1}, logits),
                    [this](const at::Tensor& frames) { return model_->ctc_head->logits(frames); });
}

Hypotheses CtcBeam::search(const EncodedBatch& batch, Loops& loops) {
  const at::Tensor &logits = batch.frames, &lengths = batch.lengths;
  std::optional<State> state;
  loops.segment(RangeName::decode_init, [&] { state.emplace(start(logits, lengths)); });
  if (options_.kernels == "fused") {
    loops.segment(RangeName::decode_step, [&] { fused_steps(*state); });
  } else {
    loops.while_any(state->active,
                    [&] { loops.segment(RangeName::decode_step, [&] { step(*state); }); });
  }
  Hypotheses best;
  loops.segment(RangeName::decode_trace_back, [&] { best = result(*state, logits, lengths); });
  return best;
}

CtcBeam::State CtcBeam::start(const at::Tensor& logits, const at::Tensor& lengths) const {
  at::Tensor scaled = logits.to(score_dtype(logits.scalar_type())) / options_.temperature;
  const DeviceBias rows = bias_.rows(lengths.size(0));
  if (rows.forbidden.defined())
    scaled.narrow(2, 0, rows.forbidden.size(1)).masked_fill_(rows.forbidden.unsqueeze(1), kLogZero);
  State state(scaled.log_softmax(2), lengths, options_.beam_size,
              rows.repeated(options_.beam_size));
  if (lm_) state.lm_states = lm_->initial_states(lengths.size(0) * options_.beam_size);
  return state;
}

std::vector<RowPiece> CtcBeam::search_piece(const EncodedBatch& batch, bool last, RowState& carried,
                                            HostReads& reads) {
  State state = start(batch.frames, batch.lengths);
  if (!carried.empty()) state.transfer(StateTransfer::load(carried));
  const BeamPiece piece(state.beams);
  for (int64_t t = 0; t < batch.longest(); ++t) step(state);
  if (last) end(state);
  auto rows = read_pieces(state.beams, piece, batch.longest(), batch.lengths,
                          rows_with_nan(batch.frames, batch.lengths), reads);
  carried.clear();
  state.transfer(StateTransfer::save(carried));
  return rows;
}

/// Returns the scores of each hypothesis followed by each label, [B, K, V+1].
at::Tensor CtcBeam::candidates(const State& state) const {
  const BeamHypotheses& h = state.beams;
  const at::Tensor all = state.log_probs.index_select(1, state.frame) + h.scores.unsqueeze(2);
  if (!lm_ && !state.bias.has_models()) return all;
  const at::Tensor tokens = at::arange(h.blank, h.time.options());
  at::Tensor bonus;
  if (lm_) {
    bonus = lm_->scores(state.lm_states);
    // An unknown token may have ln p = -inf, and 0 * -inf would be NaN.
    bonus = (options_.lm->alpha == 0 ? at::zeros_like(bonus) : bonus * options_.lm->alpha) +
            options_.lm->beta;
  }
  if (state.bias.has_models()) {
    const at::Tensor biasing = state.bias.scores(state.bias_states);
    bonus = bonus.defined() ? bonus + biasing : biasing;
  }
  bonus = bonus.view({h.batch, h.beam, -1});
  bonus = bonus.masked_fill(h.last_label.unsqueeze(2) == tokens, 0);  // repeated labels
  return all + at::constant_pad_nd(bonus, {0, 1});
}

void CtcBeam::step(State& state) const {
  BeamHypotheses& h = state.beams;
  const int64_t labels_per_beam = h.blank + 1;
  const TopK best = top_k(candidates(state).flatten(1), h.beam);
  const at::Tensor bound = best.values.narrow(1, 0, 1) - options_.beam_threshold;
  const at::Tensor nothing = at::full({}, kLogZero, best.values.options());
  const at::Tensor own = at::arange(h.beam, h.time.options());
  const at::Tensor parents =
      at::where(state.active, best.indices.div(labels_per_beam, "floor"), own);
  const at::Tensor labels = at::where(state.active, best.indices.remainder(labels_per_beam),
                                      at::full_like(best.indices, -1));
  const at::Tensor scores =
      at::where(state.active, at::where(best.values > bound, best.values, nothing), h.scores);
  if (lm_ || state.bias.has_models()) {
    const at::Tensor new_token = labels != h.last_label.gather(1, parents);
    const at::Tensor kept = at::where(new_token, labels, at::full_like(labels, -1)).flatten();
    const at::Tensor slots = (state.first_slot + parents).flatten();
    if (lm_) state.lm_states.copy_(lm_->next_states(state.lm_states.index_select(0, slots), kept));
    if (state.bias.has_models()) {
      at::Tensor& states = state.bias_states;
      states.copy_(state.bias.next_states(states.index_select(0, slots), kept));
    }
  }
  h.append(parents, labels, scores);
  h.merge(options_.merge == "sum");
  state.frame.add_(1);
  at::lt_out(state.active, state.frame, state.lengths);
}

void CtcBeam::fused_steps(State& state) const {
  const int64_t columns = state.beams.columns;
  if (columns == 0) return;
  fused_beam::CtcFrames frames{fused_beam::view_of(state.beams, state.lengths),
                               data_of<float>(state.log_probs),
                               static_cast<int32_t>(columns),
                               fused_beam::fusion_of(lm_.get(), lm_options(), state.lm_states,
                                                     state.bias, state.bias_states),
                               nullptr,
                               static_cast<float>(options_.beam_threshold),
                               options_.merge == "sum"};
  at::Tensor bonuses;
  if (frames.fusion.any()) {
    const BeamHypotheses& h = state.beams;
    bonuses = at::empty({h.batch, h.beam, h.blank}, h.scores.options());
    frames.bonuses = bonuses.mutable_data_ptr<float>();
  }
  const fused_beam::RunPhases run(state.log_probs.device());
  run(frames);
}

/// Adds the scores of the end of the text, and merges equal texts.
void CtcBeam::end(State& state) const {
  BeamHypotheses& h = state.beams;
  if (lm_ && options_.lm_end && options_.lm->alpha != 0) {
    const at::Tensor end = lm_->final_scores(state.lm_states).view_as(h.scores);
    h.scores.add_(at::where(end > kLogZero, end * options_.lm->alpha, at::zeros_like(end)));
  }
  if (state.bias.has_models())
    h.scores.add_(state.bias.final_scores(state.bias_states).view_as(h.scores));
  h.last_label.zero_();  // a text with blanks at its end equals the text without them
  h.merge(options_.merge == "sum");
}

Hypotheses CtcBeam::result(State& state, const at::Tensor& logits,
                           const at::Tensor& lengths) const {
  end(state);
  return state.beams.result(options_.nbest, options_.score_norm, rows_with_nan(logits, lengths));
}

}  // namespace rtfx
