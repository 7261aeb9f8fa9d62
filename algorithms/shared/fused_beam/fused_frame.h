// A frame of AES++ (algorithms/decoders/beam/aes_pp) in a few kernels for each expansion: what
// AesPp::Search does with operators, in the same order (frame.h has the parts). Scores and their
// ties are those of the operators; only roundings differ.
#pragma once

#include "algorithms/shared/fused_beam/frame.h"
#include "algorithms/shared/fused_beam/fused_rows.h"

namespace rtfx {

class FusedFrame {
 public:
  struct Options {
    int64_t num_steps;
    int64_t labels;  // candidates of a hypothesis
    double gamma;
    double temperature;
    bool count_acoustic_twice;
    bool ask_former_slot;
  };

  /// See FusedRows.
  FusedFrame(const FusedModel& model, const BeamLm& lm, const Options& options,
             TransducerBeams& beams);

  /// None waits for the device; all can be recorded into a graph.
  void start_frame();
  void expand();
  void finish_frame();

  /// The same by run(phase), which must do all that the phase's blocks do.
  template <class Run>
  void start_frame(const Run& run) {
    rows_.evaluate_joint(run);
    run(normalize_);
    run(start_);
  }
  template <class Run>
  void expand(const Run& run) {
    run(expand_);
    run(choose_);
    rows_.advance(run);
    rows_.evaluate_joint(run);
    run(normalize_);
  }
  template <class Run>
  void finish_frame(const Run& run) {
    run(finish_);
    run(next_);
  }

  at::Tensor active;     // [1] bool: an utterance has a frame left
  at::Tensor expanding;  // [1] bool: a hypothesis is to be expanded at this frame

 private:
  at::Tensor open_;               // [R] bool: at this frame and without a blank
  at::Tensor time_, expansions_;  // [1] int64
  at::Tensor softmax_;            // [R, 4] float32: RowSoftmax
  FusedRows rows_;
  CandidateArrays candidates_;
  at::Tensor merged_;  // [R, E] float32; TDT
  fused_beam::Normalize normalize_{};
  fused_beam::StartFrame start_{};
  fused_beam::ExpandFrame expand_{};
  fused_beam::ChooseExpanded choose_{};
  fused_beam::FinishFrame finish_{};
  fused_beam::NextFrame next_{};
};

}  // namespace rtfx
