#include "algorithms/shared/transducer/transducer.h"

#include <ATen/ATen.h>

#include "algorithms/log_zero.h"
#include "base/error.h"
#include "models/checkpoint/score_dtype.h"

namespace rtfx {

Transducer::Transducer(std::shared_ptr<const AcousticModel> model, Options options)
    : model_(std::move(model)), options_(std::move(options)) {
  if (!model_->joint || !model_->prediction) {
    throw UserError("decoder", "the model has no transducer head",
                    "use a CTC decoder for this model");
  }
  const ModelConfig& config = model_->config;
  if (config.is_tdt())
    duration_values_ = at::tensor(config.durations, at::kLong).to(model_->device);
  if (config.is_multiblank()) {
    const at::Tensor blanks = at::tensor(config.blank_durations, at::kLong);
    blank_durations_ = at::constant_pad_nd(blanks, {1, 0}).to(model_->device);
  }
}

at::Tensor Transducer::encode(const at::Tensor& frames) const {
  return options_.project_encoder_once ? model_->joint->project_encoder(frames) : frames;
}

at::Tensor Transducer::encoded_frame() const {
  const at::Tensor& weight = model_->joint->encoder().weight;
  return encode(at::zeros({1, 1, weight.size(1)}, weight.options()));
}

PredictionState Transducer::initial_state(int64_t batch) const {
  return model_->prediction->initial_state(batch);
}

Transducer::Prediction Transducer::predict(const at::Tensor& labels,
                                           const PredictionState& state) const {
  auto [output, next] = model_->prediction->step(labels, state);
  if (options_.project_prediction_once) output = model_->joint->project_prediction(output);
  return {output, next};
}

Transducer::Prediction Transducer::start(int64_t batch) const {
  const auto options = at::TensorOptions(at::kLong).device(model_->device);
  return predict(at::full({batch}, blank(), options), initial_state(batch));
}

at::Tensor Transducer::logits(const at::Tensor& encoded, const at::Tensor& output,
                              const at::Tensor& forbidden) const {
  const Joint& joint = *model_->joint;
  at::Tensor logits =
      joint.logits(options_.project_encoder_once ? encoded : joint.project_encoder(encoded),
                   options_.project_prediction_once ? output : joint.project_prediction(output));
  if (forbidden.defined()) logits.narrow(-1, 0, blank()).masked_fill_(forbidden, kLogZero);
  return logits;
}

Decision Transducer::decide(const at::Tensor& encoded, const at::Tensor& output,
                            const at::Tensor& bonus, const at::Tensor& forbidden) const {
  return decide_logits(logits(encoded, output, forbidden), bonus);
}

LogProbs Transducer::log_probs(const at::Tensor& encoded, const at::Tensor& output,
                               double temperature, const at::Tensor& forbidden) const {
  at::Tensor scaled = logits(encoded, output, forbidden);
  scaled = scaled.to(score_dtype(scaled.scalar_type()));
  if (temperature != 1) scaled = scaled / temperature;
  LogProbs result{scaled.narrow(-1, 0, labels()).log_softmax(-1), {}};
  if (is_tdt()) {
    const int64_t durations = duration_values_.size(0);
    result.durations = scaled.narrow(-1, labels(), durations).log_softmax(-1);
  }
  return result;
}

Decision Transducer::decide_logits(const at::Tensor& logits, const at::Tensor& bonus) const {
  const at::ScalarType wide = score_dtype(logits.scalar_type());
  const at::Tensor all = logits.narrow(-1, 0, labels());
  auto [best, argmax] = all.max(-1);
  Decision decision;
  decision.is_blank = argmax >= blank();
  if (blank_durations_.defined()) {
    decision.durations = blank_durations_.take((argmax - (blank() - 1)).clamp_min(0));
    argmax = argmax.clamp_max(blank());
  }
  if (bonus.defined()) {
    const auto [sum, token] = (logits.narrow(-1, 0, blank()) + bonus).max(-1);
    argmax = at::where(decision.is_blank, argmax, token);
    best = at::where(decision.is_blank, best.to(wide), sum);
  }
  decision.labels = argmax;
  decision.scores =
      options_.score_kind == "logprob" ? best.to(wide) - all.to(wide).logsumexp(-1) : best;
  if (is_tdt()) {
    const at::Tensor index =
        std::get<1>(logits.narrow(-1, labels(), duration_values_.size(0)).max(-1));
    decision.predicted = duration_values_.take(index);
    decision.durations =
        at::where(decision.is_blank, decision.predicted.clamp_min(1), decision.predicted);
  } else if (!decision.durations.defined()) {
    decision.durations = decision.is_blank.to(at::kLong);
  }
  return decision;
}

at::Tensor gather_frames(const at::Tensor& encoded, const at::Tensor& frames) {
  const at::Tensor index = frames.view({-1, 1, 1}).expand({-1, 1, encoded.size(2)});
  return encoded.gather(1, index).squeeze(1);
}

}  // namespace rtfx
