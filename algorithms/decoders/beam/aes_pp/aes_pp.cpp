#include "algorithms/decoders/beam/aes_pp/aes_pp.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/log_zero.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/skipping/blank_skipping.h"

namespace rtfx {
namespace {

/// Returns -inf for where(), as a [] tensor of the dtype and device of `like`.
at::Tensor nothing(const at::Tensor& like) { return at::full({}, kLogZero, like.options()); }

}  // namespace

const OptionTable<AesPpOptions>& AesPpOptions::table() {
  using O = AesPpOptions;
  static const OptionTable<O> table{fields_with<O>(
      TransducerBeamOptions::table(),
      {
          option("num_steps", &O::num_steps, kTokensPerFrameHelp, 1, 100),
          option("expansion_beta", &O::expansion_beta,
                 "Each hypothesis is expanded by its best labels, whose number is `beam_size` + "
                 "this value. A sum above the number of the model's tokens is an error.",
                 0, 1000),
          option("expansion_gamma", &O::expansion_gamma,
                 "A label is left out if its score is lower than that of the hypothesis's best "
                 "label by this value or more. If `lm.pruning` is `early`, acoustic scores count.",
                 1e-3, 1e4),
          option("compatibility", &O::compatibility,
                 "`none`: the published algorithm. `nemo`: that of NeMo, where some RNN-T "
                 "hypotheses pass a frame without a blank. It also counts acoustic scores twice if "
                 "`lm.pruning` is `early` and `lm.blank_scoring` is `lm_weighted_full`. If "
                 "`lm.alpha` and `lm.beta` are 0, they count once, unlike in NeMo.",
                 {"none", "nemo"}),
      })};
  return table;
}

namespace {
const RegisterSkipping<AesPp> registered{
    "aes_pp", "Batched beam search of RNN-T and TDT by adaptive expansion (AES++)"};
}

/// The search over one batch, as segments for Loops. While any utterance is `active`, the loops
/// call start_frame() at the next frame, expand() while any hypothesis is `expanding`, and
/// finish_frame(). B utterances have K slots each, and E = K + expansion_beta. Tensors keep their
/// addresses and are changed in place. No member waits for the device.
class AesPp::Search {
 public:
  /// encoded [B, T', H], projected; lengths [B] int64. The references must outlive this object.
  Search(const Options& options, const Transducer& transducer, const BeamLm& lm,
         const at::Tensor& encoded, const at::Tensor& lengths);

  void start_frame();
  void expand();
  void finish_frame();
  Hypotheses result();

  /// Passes the state between two frames to `transfer`.
  void transfer(StateTransfer transfer) { beams_.transfer(transfer); }
  void end() { beams_.end(); }
  BeamHypotheses& hypotheses() { return beams_.hypotheses; }

  at::Tensor active;     // [B, 1] bool: utterances with a frame left
  at::Tensor expanding;  // [B, K] bool: hypotheses that must be expanded at this frame

 private:
  void evaluate_joint();
  void prefix_search();
  at::Tensor held(const Expansions& all) const;
  at::Tensor merged(const at::Tensor& scores, const Expansions& all) const;

  const Options& options_;
  const Transducer& transducer_;
  const bool tdt_, early_;
  int64_t zero_ = -1, shortest_ = -1;  // TDT: indices of duration 0 and of the smallest above 0

  TransducerBeams beams_;
  at::Tensor frame_;  // [1] int64, t
  at::Tensor step_;   // [1] int64, number of expansions at this frame so far
  at::Tensor open_;   // [B, K] bool: hypotheses at frame t without a blank
  LogProbs next_;     // log-probabilities of labels after each hypothesis at frame t
  at::Tensor fused_;  // [B, K, V+1], next_.labels with the language model
};

Description AesPp::describe() const {
  return {"aes_pp",        Head::transducer, Description::Exactness::approximate,
          {"rnnt", "tdt"}, kBeamScore,       /*streams=*/true};
}

void AesPp::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  require_beam_fits(describe(), options_.beam_size, *model, options_.expansion_beta);
  prepare_fusion(*model, limits);
  if (options_.kernels == "fused") fused_.emplace(model);
  transducer_.emplace(std::move(model), Transducer::Options{});
  options_.loop =
      prepare_loops(options_.loop, limits, transducer_->encoded_frame(),
                    [this](const at::Tensor& frames) { return transducer_->encode(frames); });
}

Counters AesPp::counts() const {
  return {{"frames_visited", frames_visited_},
          {"joint_calls", frames_visited_ + expansions_},
          {"pred_calls", expansions_ + 1}};
}

void AesPp::reset_counts() { frames_visited_ = expansions_ = 0; }

std::vector<RowPiece> AesPp::search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                          HostReads& reads) {
  const BeamLm lm = {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
  Search search(options_, *transducer_, lm, batch.frames, batch.lengths);
  if (!state.empty()) search.transfer(StateTransfer::load(state));
  const BeamPiece piece(search.hypotheses());
  int64_t columns = 0;
  for (int64_t t = 0; t < batch.longest(); ++t) {
    search.start_frame();
    for (; reads.any(search.expanding); ++columns) search.expand();
    search.finish_frame();
    ++columns;
  }
  if (last) search.end();
  auto rows = read_pieces(search.hypotheses(), piece, columns, batch.lengths,
                          rows_with_nan(batch.frames, batch.lengths), reads);
  state.clear();
  search.transfer(StateTransfer::save(state));
  return rows;
}

Hypotheses AesPp::search(const EncodedBatch& batch, Loops& loops) {
  const at::Tensor &encoded = batch.frames, &lengths = batch.lengths;
  const BeamLm lm = {lm_.get(), lm_options(), bias_.rows(batch.lengths.size(0))};
  const auto frames = [&](auto& search) {
    loops.while_any(search->active, [&] {
      ++frames_visited_;
      loops.segment(RangeName::decode_frame, [&] { search->start_frame(); });
      loops.while_any(search->expanding, [&] {
        ++expansions_;
        loops.segment(RangeName::decode_step, [&] { search->expand(); });
      });
      loops.segment(RangeName::decode_frame, [&] { search->finish_frame(); });
    });
  };
  Hypotheses result;
  if (fused_) {
    std::optional<TransducerBeams> beams;
    std::optional<FusedFrame> search;
    loops.segment(RangeName::decode_init, [&] {
      const int64_t columns = encoded.size(1) * (options_.num_steps + 1);
      beams.emplace(*transducer_, lm, encoded, lengths, options_.beam_size, columns);
      search.emplace(*fused_, lm, fused_options(), *beams);
    });
    frames(search);
    loops.segment(RangeName::decode_trace_back,
                  [&] { result = beams->result(options_.nbest, options_.score_norm); });
    return result;
  }
  std::optional<Search> search;
  loops.segment(RangeName::decode_init,
                [&] { search.emplace(options_, *transducer_, lm, encoded, lengths); });
  frames(search);
  loops.segment(RangeName::decode_trace_back, [&] { result = search->result(); });
  return result;
}

FusedFrame::Options AesPp::fused_options() const {
  const LmOptions* lm = lm_options();
  const bool early_full =
      lm != nullptr && lm->pruning == "early" && lm->blank_scoring == "lm_weighted_full";
  return {options_.num_steps,
          options_.beam_size + options_.expansion_beta,
          options_.expansion_gamma,
          options_.temperature,
          options_.compatibility == "nemo" && early_full,
          options_.compatibility == "nemo" && !transducer_->is_tdt()};
}

AesPp::Search::Search(const Options& options, const Transducer& transducer, const BeamLm& lm,
                      const at::Tensor& encoded, const at::Tensor& lengths)
    : options_(options),
      transducer_(transducer),
      tdt_(transducer.is_tdt()),
      early_(lm.early()),
      // A frame appends at most num_steps labels and a blank to each hypothesis.
      beams_(transducer, lm, encoded, lengths, options.beam_size,
             encoded.size(1) * (options.num_steps + 1)) {
  const std::vector<int64_t>& durations = transducer.duration_list();
  for (size_t i = 0; i < durations.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (durations[i] == 0) {
      zero_ = index;
    } else if (shortest_ < 0 || durations[i] < durations[static_cast<size_t>(shortest_)]) {
      shortest_ = index;
    }
  }
  frame_ = at::zeros({1}, lengths.options());
  step_ = at::zeros_like(frame_);
  active = frame_ < beams_.lengths;
  open_ = at::zeros_like(beams_.hypotheses.time, at::kBool);
  expanding = at::zeros_like(open_);
}

/// Fills next_ and fused_ by one joint call for all hypotheses at the frame.
void AesPp::Search::evaluate_joint() {
  const LogProbs next =
      beams_.log_probs(frame_.expand_as(beams_.hypotheses.time), options_.temperature);
  const at::Tensor fused = beams_.fused(next);
  if (!next_.labels.defined()) {
    next_ = {at::empty_like(next.labels), tdt_ ? at::empty_like(next.durations) : at::Tensor()};
    fused_ = fused.is_same(next.labels) ? next_.labels : at::empty_like(fused);
  }
  next_.labels.copy_(next.labels);
  if (tdt_) next_.durations.copy_(next.durations);
  if (!fused_.is_same(next_.labels)) fused_.copy_(fused);
}

void AesPp::Search::start_frame() {
  const BeamHypotheses& h = beams_.hypotheses;
  evaluate_joint();
  at::logical_and_out(open_, h.alive(), active);
  if (tdt_) open_.logical_and_(h.time == frame_);
  prefix_search();
  step_.zero_();
  expanding.copy_(open_);
}

void AesPp::Search::prefix_search() {
  if (options_.beam_size == 1 || (tdt_ && zero_ < 0)) return;
  BeamHypotheses& h = beams_.hypotheses;
  // [b, j, i]: the last token of slot i after the text of slot j.
  const at::Tensor last = h.last_label.clamp_min(0).unsqueeze(1).expand({-1, h.beam, -1});
  at::Tensor given = fused_.gather(2, last) + h.scores.unsqueeze(2);
  if (tdt_) given = given + next_.durations.select(2, zero_).unsqueeze(2);
  given = at::where(h.extends(), given.transpose(1, 2), nothing(given)).logsumexp(2);
  at::where_out(h.scores, open_, at::logaddexp(h.scores, given), h.scores);
}

void AesPp::Search::expand() {
  BeamHypotheses& h = beams_.hypotheses;
  const int64_t count = options_.beam_size + options_.expansion_beta;
  Expansions all = beams_.expand(next_, fused_, count);
  const at::Tensor before = h.scores.unsqueeze(2), open = open_.unsqueeze(2);
  const at::Tensor ranked = before + (early_ ? all.acoustic : all.scores);
  const at::Tensor kept = ranked > ranked.amax(2, /*keepdim=*/true) - options_.expansion_gamma;
  at::Tensor scores = before + all.scores;
  if (options_.compatibility == "nemo" && early_ &&
      options_.lm->blank_scoring == "lm_weighted_full")
    scores = scores + all.acoustic;

  // A hypothesis that is not expanded has one candidate, itself, in the last column.
  const at::Tensor last = at::arange(count, h.time.options()) == count - 1;
  const at::Tensor possible = kept.logical_and(held(all).logical_not());
  scores = at::where(open, at::where(possible, scores, nothing(scores)),
                     at::where(last, before, nothing(scores)));
  all.labels = at::where(open, all.labels, at::full_like(all.labels, -1));
  if (tdt_) {
    all.durations = at::where(open, all.durations, at::zeros_like(all.durations));
    scores = merged(scores, all);
  }

  const bool as_nemo = options_.compatibility == "nemo" && !tdt_;
  const at::Tensor open_or_empty =
      as_nemo ? open_.logical_or(h.alive().logical_not()) : at::Tensor();
  const Choice best = beams_.choose(scores, all.labels, all.durations, open_);
  h.append(best.parents, best.labels, best.scores, best.durations);
  beams_.advance(best.parents, best.labels);
  evaluate_joint();
  at::Tensor still = (best.labels >= 0).logical_and(best.labels != h.blank).logical_and(h.alive());
  if (tdt_) still = still.logical_and(best.durations == 0);
  // A label shows that its parent was open. NeMo also asks whether the slot's former hypothesis
  // was.
  if (as_nemo) still = still.logical_and(open_or_empty);
  open_.copy_(still);
  step_.add_(1);
  at::logical_and_out(expanding, open_, step_ < options_.num_steps);
}

/// Returns [B, K, E] bool: tokens that stay at the frame and make a text which the beam holds.
at::Tensor AesPp::Search::held(const Expansions& all) const {
  const BeamHypotheses& h = beams_.hypotheses;
  const at::Tensor holder = tdt_ ? h.alive().logical_and(h.time == frame_) : h.alive();
  const at::Tensor equal =
      h.extended_hash(all.labels).flatten(1).unsqueeze(2) == h.hash.unsqueeze(1);  // [B, K*E, K]
  const at::Tensor found = equal.logical_and(holder.unsqueeze(1)).any(2).view(all.labels.sizes());
  const at::Tensor held = found.logical_and(all.labels != h.blank);
  return tdt_ ? held.logical_and(all.durations == 0) : held;
}

/// Merges candidates of TDT with equal texts at equal frames: the best gets the sum, the others
/// -inf.
at::Tensor AesPp::Search::merged(const at::Tensor& scores, const Expansions& all) const {
  const BeamHypotheses& h = beams_.hypotheses;
  const at::Tensor token = (all.labels >= 0).logical_and(all.labels != h.blank);
  const at::Tensor hash =
      at::where(token, h.extended_hash(all.labels), h.hash.unsqueeze(2)).flatten(1);
  const at::Tensor time = (h.time.unsqueeze(2) + all.durations).flatten(1);
  const auto pairs = [](const at::Tensor& x) { return x.unsqueeze(2) == x.unsqueeze(1); };
  const at::Tensor shared = at::where(pairs(hash).logical_and(pairs(time)),
                                      scores.flatten(1).unsqueeze(1), nothing(scores));
  const at::Tensor first = std::get<1>(shared.max(2));
  const at::Tensor survives = first == at::arange(first.size(1), first.options());
  return at::where(survives, shared.logsumexp(2), nothing(scores)).view(scores.sizes());
}

void AesPp::Search::finish_frame() {
  BeamHypotheses& h = beams_.hypotheses;
  at::Tensor blank = next_.labels.select(2, h.blank), durations;
  if (tdt_) {
    const at::Tensor& values = transducer_.duration_values();
    at::Tensor index = next_.durations.argmax(2);
    if (shortest_ >= 0)
      index = at::where(values.take(index) == 0, at::full_like(index, shortest_), index);
    blank = blank + next_.durations.gather(2, index.unsqueeze(2)).squeeze(2);
    durations = values.take(index).clamp_min(1);
  }
  const at::Tensor own = at::arange(h.beam, h.time.options()).expand_as(h.time);
  h.append(own, open_.to(at::kLong) * (h.blank + 1) - 1,  // blank, or -1
           at::where(open_, h.scores + blank, h.scores), durations);
  if (tdt_) h.merge();
  frame_.add_(1);
  at::lt_out(active, frame_, beams_.lengths);
}

Hypotheses AesPp::Search::result() { return beams_.result(options_.nbest, options_.score_norm); }

}  // namespace rtfx
