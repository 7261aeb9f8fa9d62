#include "algorithms/decoders/beam/alsd_pp/alsd_pp.h"

#include <ATen/ATen.h>

#include "algorithms/log_zero.h"
#include "algorithms/registry.h"
#include "algorithms/shared/beams/beam_options.h"
#include "base/nvtx.h"

namespace rtfx {
namespace {

const OptionTable<AlsdPp::Options> kOptions{{
    option("beam_size", &AlsdPp::Options::beam_size, "hypotheses that are kept", 1, 1000),
    option("max_symbols", &AlsdPp::Options::max_symbols, "tokens per frame", 1, 1000),
    option("score_norm", &AlsdPp::Options::score_norm, "rank by score / (tokens + 1)"),
    option("nbest", &AlsdPp::Options::nbest,
           "hypotheses to return, at most beam_size; with a list if more than 1", 1, 1000),
    option("temperature", &AlsdPp::Options::temperature, "logits are divided by it", 1e-3, 1e3),
    option("merge_finished", &AlsdPp::Options::merge_finished,
           "TDT: add up equal texts that end at different frames"),
    option("scale_forced_blank", &AlsdPp::Options::scale_forced_blank,
           "false: with early pruning a blank after max_symbols tokens is not fused, as in NeMo"),
    option("lm", &AlsdPp::Options::lm, "language model, fused with every label's score",
           beam_lm_options()),
    option("step", &AlsdPp::Options::step, "a step as LibTorch operators or as fused kernels",
           {"operators", "fused"}),
    option("graphs", &AlsdPp::Options::graphs, "who drives the loop: the host, one graph",
           {"none", "conditional"}),
}};

const RegisterDecoder registered{
    {"alsd_pp", "beam search RNN-T/TDT, batched: alignment-length synchronous (ALSD++)",
     kOptions.info(), [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<AlsdPp>(kOptions.fill(options, where));
     }}};

}  // namespace

struct AlsdPp::State {
  explicit State(TransducerBeams start)
      : beams(std::move(start)), active(at::empty_like(beams.hypotheses.time, at::kBool)) {
    refresh();
  }

  TransducerBeams beams;
  at::Tensor active;  // [B, K] bool: holds a hypothesis with a frame left

  void refresh() {
    const BeamHypotheses& h = beams.hypotheses;
    at::logical_and_out(active, h.alive(), h.time < beams.lengths);
  }
};

Description AlsdPp::describe() const {
  return {"alsd_pp",
          Head::transducer,
          Description::Exactness::approximate,
          {"rnnt", "tdt"},
          kBeamScore};
}

nlohmann::json AlsdPp::options() const { return kOptions.resolved(options_); }

void AlsdPp::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  require_beam_fits(describe(), options_.beam_size, *model);
  if (options_.lm) lm_ = load_lm(*options_.lm, *model);
  if (options_.step == "fused") fused_.emplace(model);
  transducer_.emplace(std::move(model), Transducer::Options{});
  if (fused_) {  // a search of no frames, which refuses a beam that does not fit into the GPU
    HostLoops loops(host_);
    const auto longs = at::TensorOptions(at::kLong).device(transducer_->device());
    search(transducer_->encode(transducer_->blank_frame()), at::zeros({1}, longs), loops);
  }
  options_.graphs = GraphForm::available(options_.graphs, transducer_->device(), "alsd_pp");
  if (options_.graphs == "none") return;
  recorded_.emplace(options_.graphs,
                    [this](const at::Tensor& encoded, const at::Tensor& lengths, Loops& loops) {
                      return search(encoded, lengths, loops);
                    });
  recorded_->prepare(limits, transducer_->encode(transducer_->blank_frame()));
}

Counters AlsdPp::counters() const {
  if (recorded_) return {{"host_reads", host_.count()}, {"graph_captures", recorded_->captures()}};
  return {{"outer_iters", steps_},
          {"joint_calls", steps_},
          {"pred_calls", steps_ + 1},
          {"host_reads", host_.count()}};
}

Hypotheses AlsdPp::decode(const EncodedBatch& batch) {
  host_.reset();
  steps_ = 0;
  at::Tensor encoded;
  {
    const ScopedRange range("decode.project");
    encoded = transducer_->encode(batch.frames);
  }
  const ScopedRange range("decode.loop");
  if (recorded_) return recorded_->run(encoded, batch.lengths, host_);
  HostLoops loops(host_);
  return search(encoded, batch.lengths, loops);
}

Hypotheses AlsdPp::search(const at::Tensor& encoded, const at::Tensor& lengths, Loops& loops) {
  std::optional<State> state;
  std::optional<FusedStep> fused;
  loops.piece([&] {
    // A frame takes max_symbols tokens and a blank at most.
    const int64_t columns = encoded.size(1) * (options_.max_symbols + 1);
    const BeamLm lm = {lm_.get(), options_.lm ? &*options_.lm : nullptr};
    state.emplace(TransducerBeams(*transducer_, lm, encoded, lengths, options_.beam_size, columns));
    if (!fused_) return;
    const FusedStep::Options options{options_.max_symbols, options_.temperature,
                                     options_.merge_finished, options_.scale_forced_blank};
    fused.emplace(*fused_, lm, options, state->beams);
  });
  loops.while_any(fused ? fused->any_active : state->active, [&] {
    ++steps_;
    loops.piece([&] { fused ? (*fused)() : step(*state); });
  });
  Hypotheses result;
  loops.piece([&] { result = state->beams.result(options_.nbest, options_.score_norm); });
  return result;
}

void AlsdPp::step(State& state) {
  TransducerBeams& beams = state.beams;
  BeamHypotheses& h = beams.hypotheses;
  const int64_t beam = options_.beam_size;
  const LogProbs next = beams.log_probs(h.time, options_.temperature);
  const at::Tensor fused = beams.fused(next);
  const Expansions all = beams.expand(next, fused, beam);

  // Some have one candidate alone, in the place of the first: themselves, or a blank.
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
  if (options_.merge_finished) {
    h.merge_at(at::minimum(h.time, beams.lengths));
  } else {
    h.merge();
  }
  beams.advance(best.parents, best.labels);
  state.refresh();
}

/// What a blank adds where it is the only label: [B, K].
at::Tensor AlsdPp::forced_blank(const LogProbs& next, const at::Tensor& fused) const {
  const bool acoustic =
      !options_.scale_forced_blank && options_.lm && options_.lm->pruning == "early";
  const at::Tensor blank = (acoustic ? next.labels : fused).select(2, transducer_->blank());
  return next.durations.defined() ? blank + next.durations.amax(2) : blank;
}

}  // namespace rtfx
