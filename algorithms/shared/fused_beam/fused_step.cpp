#include "algorithms/shared/fused_beam/fused_step.h"

#include <ATen/ATen.h>

#include "algorithms/shared/fused_beam/run_phases.h"

namespace rtfx {

FusedStep::FusedStep(const FusedModel& model, const BeamLm& lm, const Options& options,
                     TransducerBeams& beams)
    : any_active((beams.lengths > 0).any().reshape({1})),
      rows_(model, lm, options.temperature, beams),
      candidates_(rows_.view().rows(), rows_.view().beam, rows_.is_tdt(), any_active.device()) {
  expand_ = {rows_.view(), rows_.scoring(options.scale_forced_blank), candidates_.view(),
             static_cast<int32_t>(options.max_symbols), any_active.mutable_data_ptr<bool>()};
  choose_ = {rows_.append(), candidates_.view(), options.merge_finished,
             any_active.mutable_data_ptr<bool>()};
}

void FusedStep::operator()() {
  fused_beam::run_phases(any_active.device(), [this](const auto& run) { step(run); });
}

}  // namespace rtfx
