#include "algorithms/shared/biasing/greedy_fusion.h"

#include <ATen/ATen.h>

namespace rtfx {

bool uses_lm(const std::optional<LmOptions>& options) { return options && options->alpha != 0; }

GreedyLm::GreedyLm(const std::optional<LmOptions>& options, const AcousticModel& acoustic) {
  if (!uses_lm(options)) return;
  model = load_lm(*options, acoustic);
  alpha = options->alpha;
}

GreedyFusion::GreedyFusion(const GreedyLm& lm, int64_t rows, DeviceBias bias)
    : lm_(lm), bias_(std::move(bias)) {
  if (lm_) states_ = lm_.model->initial_states(rows);
  if (bias_.has_models()) bias_states_ = bias_.initial_states();
  if (lm_ || bias_.has_models()) score();
}

void GreedyFusion::score() {
  at::Tensor bonus;
  if (lm_) bonus = lm_.model->scores(states_).mul_(lm_.alpha);
  if (bias_.has_models()) {
    const at::Tensor biasing = bias_.scores(bias_states_);
    bonus = bonus.defined() ? bonus.add_(biasing) : biasing;
  }
  bonus_.defined() ? void(bonus_.copy_(bonus)) : void(bonus_ = bonus);
}

void GreedyFusion::append(const at::Tensor& labels, const at::Tensor& mask) {
  if (!bonus_.defined()) return;
  const at::Tensor moving = mask.defined() ? labels.masked_fill(mask.logical_not(), -1) : labels;
  if (lm_) states_.copy_(lm_.model->next_states(states_, moving));
  if (bias_.has_models()) bias_states_.copy_(bias_.next_states(bias_states_, moving));
  score();
}

void GreedyFusion::transfer(StateTransfer& transfer, const at::Tensor& rows) {
  transfer.or_zeros(bias_states_, rows);
  transfer(states_);
  if (transfer.loads() && bonus_.defined()) score();
}

}  // namespace rtfx
