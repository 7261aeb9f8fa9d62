#include "algorithms/shared/ngram_lm/greedy_fusion.h"

#include <ATen/ATen.h>

namespace rtfx {

bool uses_lm(const std::optional<LmOptions>& options) { return options && options->alpha != 0; }

GreedyLm::GreedyLm(const std::optional<LmOptions>& options, const AcousticModel& acoustic) {
  if (!uses_lm(options)) return;
  model = load_lm(*options, acoustic);
  alpha = options->alpha;
}

GreedyFusion::GreedyFusion(const GreedyLm& lm, int64_t rows) : lm_(lm) {
  if (!lm_) return;
  states_ = lm_.model->initial_states(rows);
  bonus_ = lm_.model->scores(states_).mul_(lm_.alpha);
}

void GreedyFusion::append(const at::Tensor& labels, const at::Tensor& mask) {
  if (!lm_) return;
  const at::Tensor taken = mask.defined() ? labels.masked_fill(mask.logical_not(), -1) : labels;
  states_.copy_(lm_.model->next_states(states_, taken));
  bonus_.copy_(lm_.model->scores(states_)).mul_(lm_.alpha);
}

}  // namespace rtfx
