#include "algorithms/shared/fused_beam/fused_step.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

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
  fused_beam::require_fits(
      any_active.device(), "alsd_pp", fmt::format("a beam of {}", rows_.view().beam),
      "choose a smaller beam_size, or \"step\": \"operators\"", expand_, choose_);
}

void FusedStep::operator()() { step(fused_beam::RunPhases(any_active.device())); }

}  // namespace rtfx
