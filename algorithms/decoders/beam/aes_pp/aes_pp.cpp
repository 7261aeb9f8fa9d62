#include "algorithms/decoders/beam/aes_pp/aes_pp.h"

#include <ATen/ATen.h>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/decoders/beam/aes_pp/search.h"
#include "algorithms/registry.h"
#include "algorithms/shared/beams/beam_hypotheses.h"

namespace rtfx {
namespace {

const OptionTable<AesPp::Options> kOptions{{
    option("beam_size", &AesPp::Options::beam_size, "hypotheses that are kept", 1, 1000),
    option("num_steps", &AesPp::Options::num_steps, "tokens per frame", 1, 100),
    option("expansion_beta", &AesPp::Options::expansion_beta,
           "labels of a hypothesis beyond beam_size", 0, 1000),
    option("expansion_gamma", &AesPp::Options::expansion_gamma,
           "how much worse than its hypothesis' best a label is left out, in ln p", 1e-3, 1e4),
    option("score_norm", &AesPp::Options::score_norm, "rank by score / (tokens + 1)"),
    option("nbest", &AesPp::Options::nbest,
           "hypotheses to return, at most beam_size; with a list if more than 1", 1, 1000),
    option("temperature", &AesPp::Options::temperature, "logits are divided by it", 1e-3, 1e3),
    option("permute_update", &AesPp::Options::permute_update,
           "false: RNN-T hypotheses that change slots may go without their blank, as in NeMo"),
    option("count_acoustic_twice", &AesPp::Options::count_acoustic_twice,
           "true: early pruning with lm_weighted_full counts acoustic scores twice, as in NeMo"),
    option("lm", &AesPp::Options::lm, "language model, fused with every label's score",
           beam_lm_options()),
    option("boost", &AesPp::Options::boost, "phrases whose tokens are made more likely",
           beam_boosting_options()),
    allowed_option(&AesPp::Options::allowed),
    option("kernels", &AesPp::Options::kernels, "a frame as LibTorch operators or as fused kernels",
           {"operators", "fused"}),
    option("loop", &AesPp::Options::loop, "who drives the loops: the host, one graph",
           {"host", "graph"}),
}};

const RegisterDecoder registered{
    {"aes_pp", "beam search RNN-T/TDT, batched: adaptive expansion (AES++)", kOptions.info(),
     [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<AesPp>(kOptions.fill(options, where));
     }}};

}  // namespace

Description AesPp::describe() const {
  return {"aes_pp",        Head::transducer, Description::Exactness::approximate,
          {"rnnt", "tdt"}, kBeamScore,       /*streams=*/true};
}

nlohmann::json AesPp::options() const { return kOptions.resolved(options_); }

void AesPp::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  require_beam_fits(describe(), options_.beam_size + options_.expansion_beta, *model);
  if (options_.lm) lm_ = load_lm(*options_.lm, *model);
  bias_.prepare(options_.boost, options_.allowed, *model, limits);
  if (options_.kernels == "fused") fused_.emplace(model);
  transducer_.emplace(std::move(model), Transducer::Options{});
  options_.loop = driver_.prepare(
      options_.loop, "aes_pp", limits, transducer_->encoded_frame(),
      [this](const at::Tensor& frames) { return transducer_->encode(frames); },
      [this](const EncodedBatch& batch, Loops& loops) { return search(batch, loops); });
}

Counters AesPp::counters() const {
  return driver_.counters({{"frames_visited", frames_visited_},
                           {"joint_calls", frames_visited_ + expansions_},
                           {"pred_calls", expansions_ + 1}});
}

Hypotheses AesPp::decode(const EncodedBatch& batch) {
  frames_visited_ = expansions_ = 0;
  if (bias_.select(batch)) driver_.record_anew();
  return driver_.decode(batch);
}

std::unique_ptr<Streams> AesPp::streams(const StreamLimits& limits) {
  return std::make_unique<PieceStreams>(
      beam_in_pieces([this](const at::Tensor& frames) { return transducer_->encode(frames); },
                     transducer_->encoded_frame(),
                     {options_.beam_size, options_.nbest, options_.score_norm},
                     [this](const EncodedBatch& batch, bool last, RowState& state,
                            HostReads& reads) { return search_piece(batch, last, state, reads); }),
      limits);
}

std::vector<RowPiece> AesPp::search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                          HostReads& reads) {
  if (bias_.select(batch)) driver_.record_anew();
  const BeamLm lm = {lm_.get(), options_.lm ? &*options_.lm : nullptr,
                     bias_.rows(batch.lengths.size(0))};
  Search search(options_, *transducer_, lm, batch.frames, batch.lengths);
  if (!state.empty()) search.walk(StateWalk::load(state));
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
  search.walk(StateWalk::save(state));
  return rows;
}

Hypotheses AesPp::search(const EncodedBatch& batch, Loops& loops) {
  const at::Tensor &encoded = batch.frames, &lengths = batch.lengths;
  const BeamLm lm = {lm_.get(), options_.lm ? &*options_.lm : nullptr,
                     bias_.rows(batch.lengths.size(0))};
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
  const bool early_full = options_.lm && options_.lm->pruning == "early" &&
                          options_.lm->blank_scoring == "lm_weighted_full";
  return {options_.num_steps,
          options_.beam_size + options_.expansion_beta,
          options_.expansion_gamma,
          options_.temperature,
          options_.count_acoustic_twice && early_full,
          !options_.permute_update && !transducer_->is_tdt()};
}

}  // namespace rtfx
