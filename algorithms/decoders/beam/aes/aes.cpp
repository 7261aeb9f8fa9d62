#include "algorithms/decoders/beam/aes/aes.h"

#include <ATen/ATen.h>

#include "algorithms/decoders/beam/aes/search.h"
#include "algorithms/registry.h"
#include "algorithms/shared/beams/beam_hypotheses.h"

namespace rtfx {
namespace {

const OptionTable<Aes::Options> kOptions{{
    option("beam_size", &Aes::Options::beam_size, "hypotheses that are kept", 1, 1000),
    option("num_steps", &Aes::Options::num_steps, "tokens per frame", 1, 100),
    option("prefix_alpha", &Aes::Options::prefix_alpha,
           "tokens by which prefix search may extend a hypothesis into another", 0, 1000),
    option("expansion_beta", &Aes::Options::expansion_beta,
           "labels of a hypothesis beyond beam_size", 0, 1000),
    option("expansion_gamma", &Aes::Options::expansion_gamma,
           "how much worse than its hypothesis' best a label may be, in ln p", 0, 1e4),
    option("score_norm", &Aes::Options::score_norm, "rank by score / (tokens + 1)"),
    option("nbest", &Aes::Options::nbest, "hypotheses to return, with a list if more than 1", 1,
           1000),
    option("temperature", &Aes::Options::temperature, "logits are divided by it", 1e-3, 1e3),
    option("lm", &Aes::Options::lm, "language model, added to the tokens that were chosen",
           greedy_lm_options()),
}};

const RegisterDecoder registered{
    {"aes", "beam search RNN-T/TDT, one utterance at a time: adaptive expansion", kOptions.info(),
     [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<Aes>(kOptions.fill(options, where));
     }}};

}  // namespace

Description Aes::describe() const {
  return {
      "aes", Head::transducer, Description::Exactness::approximate, {"rnnt", "tdt"}, kBeamScore};
}

nlohmann::json Aes::options() const { return kOptions.resolved(options_); }

void Aes::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  require_beam_fits(describe(), options_.beam_size + options_.expansion_beta, *model);
  if (options_.lm && options_.lm->alpha != 0) lm_ = load_lm(*options_.lm, *model)->to(at::kCPU);
  transducer_.emplace(std::move(model), Transducer::Options{});
}

Counters Aes::counters() const {
  return {
      {"joint_calls", joint_calls_}, {"pred_calls", pred_calls_}, {"host_reads", host_.count()}};
}

Hypotheses Aes::decode(const EncodedBatch& batch) {
  host_.reset();
  joint_calls_ = pred_calls_ = 0;
  return search_one_by_one(
      *transducer_, batch, options_.nbest, host_, [this](const at::Tensor& encoded) {
        Search search(options_, *transducer_, lm_ ? &*lm_ : nullptr, encoded, host_);
        std::vector<Hypothesis> ranked = search.run();
        joint_calls_ += search.joint_calls();
        pred_calls_ += search.predictor_calls();
        return ranked;
      });
}

}  // namespace rtfx
