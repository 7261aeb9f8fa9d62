#include "algorithms/decoders/beam/alsd/alsd.h"

#include <ATen/ATen.h>

#include <limits>

#include "algorithms/blank_penalty.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/beams/beam_hypotheses.h"

namespace rtfx {

const OptionTable<AlsdOptions>& AlsdOptions::table() {
  using O = AlsdOptions;
  static const OptionTable<O> table{{
      option("beam_size", &O::beam_size, kTransducerBeamSizeHelp, 1, 1000),
      option("max_target_ratio", &O::max_target_ratio,
             "Largest number of tokens of an RNN-T result, as a multiple of its encoder frames. "
             "TDT: the search has at most frames x (1 + this value) steps. If no text ends within "
             "the limit, the search returns unfinished texts.",
             0, 100),
      option("max_target_abs", &O::max_target_abs,
             "Largest number of tokens of an RNN-T result, in place of `max_target_ratio`. TDT: "
             "the search has at most frames + this value steps. If no text ends within the limit, "
             "the search returns unfinished texts. 0: use `max_target_ratio`.",
             0, std::numeric_limits<int32_t>::max()),
      option("score_norm", &O::score_norm, kScoreNormHelp),
      option("nbest", &O::nbest,
             "Number of hypotheses to return for each utterance. A value above 1 gives an n-best "
             "list.",
             1, 1000),
      mbr_option(&O::mbr),
      option("temperature", &O::temperature, kTemperatureHelp, 1e-3, 1e3),
      blank_penalty_option(&O::blank_penalty),
  }};
  return table;
}

namespace {
const Register<Alsd> registered{"alsd",
                                "Beam search of RNN-T and TDT, synchronous in alignment length "
                                "(ALSD), one utterance at a time"};
}

Description Alsd::describe() const {
  return {
      "alsd", Head::transducer, Description::Exactness::approximate, {"rnnt", "tdt"}, kBeamScore};
}

void Alsd::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  require_beam_fits(describe(), options_.beam_size, *model);
  transducer_.emplace(std::move(model), Transducer::Options{});
}

Counters Alsd::counters() const {
  return {{"outer_iters", steps_},
          {"joint_calls", joint_calls_},
          {"pred_calls", pred_calls_},
          {"unfinished", unfinished_},
          {"host_reads", host_.count()}};
}

Hypotheses Alsd::decode(const EncodedBatch& batch) {
  host_.reset();
  steps_ = joint_calls_ = pred_calls_ = unfinished_ = 0;
  return search_one_by_one(*transducer_, batch, options_.nbest, host_,
                           [this](const at::Tensor& encoded) { return search(encoded); });
}

std::vector<Hypothesis> Alsd::search(const at::Tensor& encoded) {
  HostLattice lattice(*transducer_, encoded, options_.temperature, host_);
  const int64_t frames = lattice.frames();
  const int64_t most_tokens =
      options_.max_target_abs > 0
          ? options_.max_target_abs
          : static_cast<int64_t>(options_.max_target_ratio * static_cast<double>(frames));
  HostBeam beam(1), results;
  bool nan = false;
  for (int64_t i = 0; i < frames + most_tokens; ++i) {
    HostBeam live;
    for (const HostHypothesis& h : beam)
      if (h.time < frames) live.push_back(h);
    if (live.empty()) break;
    ++steps_;
    const HostLogProbs next = lattice.log_probs(live);
    nan = next.nan();
    if (nan) break;
    beam = candidates(lattice, live, next);
    for (const HostHypothesis& h : beam)
      if (h.time >= frames) results.push_back(h);
    keep_best(beam, static_cast<size_t>(options_.beam_size));
    merge_equal(beam, /*same_time=*/true);
  }
  joint_calls_ += lattice.joint_calls();
  pred_calls_ += lattice.tree().predictor_calls();
  if (nan) return {};
  merge_equal(results, /*same_time=*/false);
  if (results.empty() && frames > 0) ++unfinished_;
  return rank(results.empty() ? beam : results, lattice.tree(), options_.score_norm,
              options_.nbest);
}

/// Returns each hypothesis followed by a blank, then by its best tokens. Row i of `next` has the
/// log-probabilities after hypothesis i.
HostBeam Alsd::candidates(HostLattice& lattice, const HostBeam& live,
                          const HostLogProbs& next) const {
  const auto blank = transducer_->blank();
  HostBeam all;
  for (size_t i = 0; i < live.size(); ++i) {
    const HostHypothesis& h = live[i];
    for (const Move& move : lattice.moves(next, i)) {
      all.push_back(h.after(h.text, next.label(i, blank) + move.log_prob, move.blank_frames));
    }
    HostBeam longer;
    for (const int32_t token : next.best_labels(i, blank, options_.beam_size)) {
      const PredictionTree::Text text = lattice.tree().extended(h.text, token);
      for (const Move& move : lattice.moves(next, i)) {
        longer.push_back(h.after(text, next.label(i, token) + move.log_prob, move.token_frames));
      }
    }
    keep_best(longer, static_cast<size_t>(options_.beam_size));
    all.insert(all.end(), longer.begin(), longer.end());
  }
  return all;
}

}  // namespace rtfx
