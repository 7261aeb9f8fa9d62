#include "algorithms/shared/fused_beam/views.h"

#include <ATen/ATen.h>

#include <cmath>

#include "algorithms/gpu/precision_of.h"
#include "base/error.h"

namespace rtfx::fused_beam {

Elements elements(const at::Tensor& t) {
  RTFX_CHECK(t.is_contiguous(), "a tensor of a fused step");
  // Phases do not write where they are given a constant.
  return {const_cast<void*>(t.const_data_ptr()), precision_of(t.scalar_type(), "a fused step")};
}

Beams view_of(const BeamHypotheses& h, const at::Tensor& frames) {
  RTFX_CHECK(frames.is_contiguous(), "frames of a fused step");
  return {static_cast<int32_t>(h.batch),
          static_cast<int32_t>(h.beam),
          static_cast<int32_t>(h.blank),
          h.hash_multiplier,
          frames.const_data_ptr<int64_t>(),
          data<float>(h.scores),
          data<int64_t>(h.hash),
          data<int64_t>(h.last_label),
          data<int64_t>(h.lengths),
          data<int64_t>(h.time),
          data<int64_t>(h.prefix_hash),
          data<int64_t>(h.run),
          data<int32_t>(h.labels),
          data<int32_t>(h.parents),
          data<int32_t>(h.durations),
          data<int64_t>(h.column)};
}

Fusion fusion_of(const NgramLm* lm, const LmOptions* options, const at::Tensor& states,
                 const RowBias& bias, const at::Tensor& own_states) {
  Fusion fusion{};
  if (lm != nullptr && (options->alpha != 0 || options->beta != 0)) {
    fusion.lm = lm->view();
    fusion.states = data<int32_t>(states);
    fusion.alpha = static_cast<float>(options->alpha);
    fusion.beta = static_cast<float>(options->beta);
    fusion.full = options->blank_scoring == "lm_weighted_full";
    fusion.blank_scale = static_cast<float>(1 + options->alpha);
  }
  fusion.least_log_rest =
      static_cast<float>(std::log(lm != nullptr ? options->blank_eps : kBlankEps));
  fusion.early = lm != nullptr && options->pruning == "early";
  if (bias.has_models()) {
    fusion.models = bias.models->view();
    fusion.roots = bias.roots.const_data_ptr<int32_t>();
    fusion.own_states = data<int32_t>(own_states);
    if (bias.blank_weights.defined())
      fusion.blank_weights = bias.blank_weights.const_data_ptr<float>();
  }
  return fusion;
}

}  // namespace rtfx::fused_beam
