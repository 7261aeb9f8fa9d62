#include "algorithms/shared/transducer/margin.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace rtfx {
namespace {

/// Prediction after the first `count` tokens, projected: [1, H].
at::Tensor predict(const AcousticModel& model, const Hypothesis& hypothesis, size_t count) {
  const auto options = at::TensorOptions(at::kLong).device(model.device);
  auto step = model.prediction->step(at::full({1}, model.prediction->blank(), options),
                                     model.prediction->initial_state(1));
  for (size_t i = 0; i < count; ++i) {
    step = model.prediction->step(at::full({1}, hypothesis.tokens[i], options), step.state);
  }
  return model.joint->project_prediction(step.output);
}

at::Tensor top_margin(const at::Tensor& logits) {
  const at::Tensor best = std::get<0>(logits.to(at::kFloat).topk(2, -1));
  return best.select(-1, 0) - best.select(-1, 1);
}

}  // namespace

std::optional<double> decision_margin(const AcousticModel& model, const at::Tensor& frames,
                                      const Hypothesis& baseline, size_t index) {
  if (!model.joint || frames.size(0) == 0) return std::nullopt;
  const bool tdt = model.config.is_tdt();
  int64_t first = index == 0 ? 0 : baseline.frames[index - 1];
  if (tdt && index > 0) first += baseline.durations[index - 1];
  const int64_t last = index < baseline.frames.size() ? baseline.frames[index] : frames.size(0) - 1;
  // A token's own duration may end the utterance: there was no later decision than the token's.
  first = std::clamp<int64_t>(std::min(first, last), 0, frames.size(0) - 1);

  const at::Tensor encoded = model.joint->project_encoder(frames.slice(0, first, last + 1));
  const at::Tensor logits = model.joint->logits(encoded, predict(model, baseline, index));
  const int64_t tokens = model.joint->tokens();
  at::Tensor margin = top_margin(logits.narrow(1, 0, tokens)).min();
  if (tdt && model.joint->durations() > 1) {
    margin =
        at::minimum(margin, top_margin(logits.narrow(1, tokens, model.joint->durations())).min());
  }
  return margin.item<double>();
}

}  // namespace rtfx
