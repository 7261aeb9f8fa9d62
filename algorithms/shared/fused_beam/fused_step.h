// A step of ALSD++ (algorithms/decoders/beam/alsd_pp) in some ten kernels in place of LibTorch's
// operators: evaluate_joint, Expand, Choose, advance (fused_rows.h). The best of many values are
// found by rounds of a maximum over a block of threads, so that no vocabulary is sorted. Scores and
// their ties are those of the operators; only roundings differ.
#pragma once

#include "algorithms/shared/fused_beam/choose.h"
#include "algorithms/shared/fused_beam/expand.h"
#include "algorithms/shared/fused_beam/fused_rows.h"

namespace rtfx {

class FusedStep {
 public:
  struct Options {
    int64_t max_symbols;
    double temperature;
    bool merge_finished;
    bool scale_forced_blank;
  };

  /// See FusedRows.
  FusedStep(const FusedModel& model, const BeamLm& lm, const Options& options,
            TransducerBeams& beams);

  /// One step of all utterances. Does not wait for the device; can be recorded into a graph.
  void operator()();

  /// The same by run(phase), which must do all that the phase's blocks do.
  template <class Run>
  void step(const Run& run) {
    rows_.evaluate_joint(run);
    run(expand_);
    run(choose_);
    rows_.advance(run);
  }

  at::Tensor any_active;  // [1] bool: a hypothesis has a frame left

 private:
  FusedRows rows_;
  CandidateArrays candidates_;
  fused_beam::Expand expand_{};
  fused_beam::Choose choose_{};
};

}  // namespace rtfx
