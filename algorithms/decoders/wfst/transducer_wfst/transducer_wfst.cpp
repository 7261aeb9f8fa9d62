#include "algorithms/decoders/wfst/transducer_wfst/transducer_wfst.h"

#include <ATen/ATen.h>

#include "algorithms/blank_penalty.h"
#include "algorithms/log_zero.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/beams/top_k.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/nvtx.h"

namespace rtfx {

const OptionTable<TransducerWfstOptions>& TransducerWfstOptions::table() {
  using O = TransducerWfstOptions;
  static const OptionTable<O> table{{
      option("graph", &O::graph,
             "Decoding graph of a lexicon and a word language model (LG), made by `rtfx graph "
             "build --topology tokens`."),
      option("alpha", &O::alpha,
             "Weight of the graph's costs. 0: the graph only restricts which texts are possible.",
             0.0, 100.0),
      option("beta", &O::beta, kInsertionBonusHelp, -100.0, 100.0),
      option("blank_scoring", &O::blank_scoring, kBlankScoringHelp,
             {"lm_weighted_full", "no_score"}),
      option("blank_eps", &O::blank_eps, kBlankEpsHelp, 1e-7, 1),
      option("beam_size", &O::beam_size, kTransducerBeamSizeHelp, 1, 1000),
      option("max_states", &O::max_states,
             "Largest number of graph states that each hypothesis keeps. Those with the least "
             "costs are kept.",
             1, 1000),
      option("max_tokens", &O::max_tokens,
             "Number of tokens, the likeliest ones, that are looked up in the graph for each "
             "hypothesis at a frame. Others are impossible. 0: all tokens.",
             0),
      option("score_norm", &O::score_norm, kScoreNormHelp),
      option("nbest", &O::nbest, kNbestHelp, 1, 1000),
      mbr_option(&O::mbr),
      option("temperature", &O::temperature, kTemperatureHelp, 1e-3, 1e3),
      option("boost", &O::boost, kBoostHelp, beam_phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
      option("loop", &O::loop, kLoopHelp, {"host", "graph"}),
  }};
  return table;
}

namespace {

const RegisterSkipping<TransducerWfst> registered{
    "transducer_wfst",
    "Batched beam search of RNN-T and TDT over a decoding graph of a lexicon and a word language "
    "model"};

/// Writes the words of a result, unless it is marked `nan`. Returns false if the words end in no
/// final state.
bool find_words(const TokenGraph& graph, const WordText& text, Hypothesis& h) {
  if (h.nan) return true;
  h.words.emplace();
  const WfstPath path = graph.words(h.tokens, h.frames);
  RTFX_CHECK(path.alive, "the graph lacks a text that was found in it");
  for (size_t i = 0; i < path.words.size(); ++i)
    h.words->push_back({text(path.words[i]), path.word_frames[i]});
  return path.reached_final;
}

/// Streams whose results have the words of the graph.
class WordStreams : public Streams {
 public:
  WordStreams(std::unique_ptr<Streams> streams, const TokenGraph& graph)
      : streams_(std::move(streams)), graph_(graph), text_(word_text(graph.graph())) {}

  at::Tensor project(const at::Tensor& frames) override { return streams_->project(frames); }
  int64_t open() override { return streams_->open(); }
  void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) override {
    streams_->set_bias(stream, std::move(bias));
  }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override {
    streams_->push(streams, pieces);
  }
  PartialResult partial(int64_t stream) override {
    PartialResult result = streams_->partial(stream);
    find_words(graph_, text_, result.best);
    return result;
  }
  Hypothesis finish(int64_t stream) override {
    Hypothesis result = streams_->finish(stream);
    find_words(graph_, text_, result);
    for (Hypothesis& entry : result.nbest) find_words(graph_, text_, entry);
    return result;
  }
  void close(int64_t stream) override { streams_->close(stream); }

 private:
  std::unique_ptr<Streams> streams_;
  const TokenGraph& graph_;
  WordText text_;
};

}  // namespace

/// Beams in which each hypothesis has a set of graph states.
class TransducerWfst::State : public MonotonicBeams {
 public:
  State(TransducerBeams start, const TransducerWfst& decoder)
      : MonotonicBeams(std::move(start), decoder.options_.temperature),
        decoder_(decoder),
        texts_(decoder.graph_->start(beams.lengths.size(0) * beams.hypotheses.beam)) {}

  void step() override {
    const LogProbs next = beams.log_probs(beams.hypotheses.time, temperature_);
    const BeamHypotheses& h = beams.hypotheses;
    const at::Tensor tokens = next.labels.narrow(2, 0, h.blank);
    const int64_t asked = decoder_.options_.max_tokens;
    const at::Tensor chosen =
        asked > 0 && asked < h.blank
            ? top_k(tokens.contiguous(), asked).indices
            : at::arange(h.blank, h.time.options()).expand({h.batch, h.beam, -1});
    const at::Tensor costs = decoder_.graph_->costs(texts_, chosen.flatten(0, 1)).view_as(chosen);
    const at::Tensor exists = costs.isfinite();
    const at::Tensor scores = costs.neg().masked_fill(~exists, 0).to(tokens.scalar_type());
    const at::Tensor lm = at::zeros_like(tokens).scatter(2, chosen, scores);
    const at::Tensor missing = at::ones_like(tokens, at::kBool).scatter(2, chosen, ~exists);
    const at::Tensor fused =
        beams.fused(next, lm).masked_fill(at::constant_pad_nd(missing, {0, 1}), kLogZero);
    const Choice best = move(next, fused);
    const at::Tensor label = best.labels.flatten();
    decoder_.graph_->advance(texts_, (beams.first_slot + best.parents).flatten(), label,
                             (label >= 0).logical_and(label != h.blank));
  }

  void end() override {
    MonotonicBeams::end();
    BeamHypotheses& h = beams.hypotheses;
    const at::Tensor ends = decoder_.graph_->final_costs(texts_).view_as(h.scores);
    const at::Tensor is_final = ends.isfinite().logical_and(h.alive());
    const at::Tensor none_final = is_final.any(1, /*keepdim=*/true).logical_not();
    const at::Tensor nothing = at::full({}, kLogZero, h.scores.options());
    const at::Tensor paid = h.scores - decoder_.options_.alpha * ends.masked_fill(~is_final, 0);
    at::where_out(h.scores, is_final.logical_or(none_final), paid, nothing);
  }

  void transfer(StateTransfer& transfer) override {
    MonotonicBeams::transfer(transfer);
    transfer(texts_.states, 0, beams.hypotheses.beam);
    transfer(texts_.costs, 0, beams.hypotheses.beam);
  }

 private:
  const TransducerWfst& decoder_;
  GraphStates texts_;
};

Description TransducerWfst::describe() const {
  Description description{
      "transducer_wfst", Head::transducer,    Description::Exactness::approximate,
      {"rnnt", "tdt"},   kMonotonicBeamScore,
      /*streams=*/true};
  description.has_own_rule = true;
  return description;
}

Counters TransducerWfst::counters() const {
  Counters all = BeamSearch::counters();
  all["not_final"] = not_final_;
  return all;
}

void TransducerWfst::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  require_beam_fits(describe(), options_.beam_size, *model);
  graph_.emplace(load_token_graph(options_.graph, *model), options_.max_states, model->device,
                 options_.graph.string());
  fusion_.alpha = options_.alpha;
  fusion_.beta = options_.beta;
  fusion_.blank_scoring = options_.blank_scoring;
  fusion_.blank_eps = options_.blank_eps;
  prepare_bias(*model, limits);
  transducer_.emplace(std::move(model), Transducer::Options{});
  options_.loop =
      prepare_loops(options_.loop, limits, transducer_->encoded_frame(),
                    [this](const at::Tensor& frames) { return transducer_->encode(frames); });
}

Counters TransducerWfst::counts() const {
  return {{"outer_iters", steps_}, {"joint_calls", steps_}, {"pred_calls", steps_ + 1}};
}

TransducerWfst::State TransducerWfst::state_of(const EncodedBatch& batch) {
  const BeamLm lm = {nullptr, &fusion_, bias_.rows(batch.lengths.size(0))};
  return {TransducerBeams(*transducer_, lm, batch.frames, batch.lengths, options_.beam_size,
                          batch.frames.size(1), AlignmentRule::monotonic),
          *this};
}

Hypotheses TransducerWfst::search(const EncodedBatch& batch, Loops& loops) {
  std::optional<State> state;
  loops.segment(RangeName::decode_init, [&] { state.emplace(state_of(batch)); });
  loops.while_any(state->open, [&] {
    ++steps_;
    loops.segment(RangeName::decode_step, [&] { state->step(); });
  });
  Hypotheses result;
  loops.segment(RangeName::decode_trace_back,
                [&] { result = state->result(options_.nbest, options_.score_norm); });
  return result;
}

std::vector<RowPiece> TransducerWfst::search_piece(const EncodedBatch& batch, bool last,
                                                   RowState& state, HostReads& reads) {
  return state_of(batch).piece(batch, last, state, reads);
}

Hypotheses TransducerWfst::decode(const EncodedBatch& batch) {
  const Hypotheses found = BeamSearch::decode(batch);
  const ScopedRange range(RangeName::decode_results, batch.frames.size(0));
  Hypotheses result = found.each([this](const at::Tensor& t) { return driver_.reads().values(t); });
  const WordText text = word_text(graph_->graph());
  auto words = std::make_shared<FoundWords>();
  for (Hypothesis& h : result.to_host()) {
    not_final_ += !find_words(*graph_, text, h);
    words->rows.push_back(h.words.value_or(std::vector<FoundWord>()));
    if (options_.nbest == 1) continue;
    auto& list = words->lists.emplace_back();
    for (Hypothesis& entry : h.nbest) {
      entry.nan = h.nan;
      find_words(*graph_, text, entry);
      list.push_back(entry.words.value_or(std::vector<FoundWord>()));
    }
  }
  result.words = std::move(words);
  return result;
}

std::unique_ptr<Streams> TransducerWfst::streams(const StreamLimits& limits) {
  return std::make_unique<WordStreams>(BeamSearch::streams(limits), *graph_);
}

}  // namespace rtfx
