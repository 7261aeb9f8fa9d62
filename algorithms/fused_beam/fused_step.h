// A step of a batched beam search of transducers (alsd_pp) in a few kernels instead of some eighty
// operators. It works on the arrays of TransducerBeams:
//
//   Hidden     act(E[b, t] + g) of each hypothesis
//   (GEMM)     logits
//   Expand     log-softmax, fusion, the K best labels of each hypothesis
//   Choose     the K best of K * K for each utterance, appended; equal texts become one
//   Gather     each slot takes its parent's LSTM state
//   (GEMMs), LstmCell   for each layer
//   (GEMM)     joint.pred
//
// Expand and Choose find the best of many values by K rounds of a maximum over a block, so that no
// vocabulary is sorted. A stateless prediction network is a few operators in place of the last
// three. Scores and their ties are those of the operators (alsd_pp.h); only roundings differ.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "algorithms/beam_hypotheses/transducer_beams.h"
#include "algorithms/fused_beam/choose.h"
#include "algorithms/fused_beam/expand.h"
#include "algorithms/fused_beam/predict.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// What steps need of a transducer, made once.
struct FusedModel {
  explicit FusedModel(std::shared_ptr<const AcousticModel> transducer);

  std::shared_ptr<const AcousticModel> model;
  at::Tensor first_gates;      // [V+1, 4P], what the first LSTM layer makes of a label
  at::Tensor duration_values;  // [D] int64; undefined for RNN-T
};

class FusedStep {
 public:
  struct Options {
    int64_t max_symbols;
    double temperature;
    bool merge_finished;
    bool scale_forced_blank;
  };

  /// For `beams` at the start of their search. Both and `lm` must outlive this.
  FusedStep(const FusedModel& model, const BeamLm& lm, const Options& options,
            TransducerBeams& beams);

  /// One step of all utterances. Does not wait for the device; can be recorded into a graph.
  void operator()();

  /// The same by run(phase), which must do all that the phase's blocks do, on the phases of this
  /// folder.
  template <class Run>
  void step(const Run& run) {
    run(hidden_);
    run(expand(logits()));
    run(choose_);
    if (texts_.defined()) {
      look_up_texts();
    } else {
      run(gather_);
      for (int64_t layer = 0; layer < layers(); ++layer) {
        const Gates gates = gates_of(layer);
        run(cell(layer, gates));
      }
      project(beams_.prediction.state.h.select(0, layers() - 1));
    }
  }

  at::Tensor any_active;  // [1] bool: a hypothesis has a frame left

 private:
  struct Gates {
    at::Tensor input;      // [V+1, 4P] for the first layer, else [R, 4P]
    at::Tensor recurrent;  // [R, 4P]
  };

  int64_t layers() const;
  at::Tensor logits() const;  // [R, V+1+D]
  fused_beam::Expand expand(const at::Tensor& logits) const;
  Gates gates_of(int64_t layer) const;
  fused_beam::LstmCell cell(int64_t layer, const Gates& gates) const;
  void project(const at::Tensor& output);  // joint.pred, [R, P] -> prediction.output
  void look_up_texts();

  const FusedModel& model_;
  TransducerBeams& beams_;

  at::Tensor hidden_units_;                                               // [R, H]
  at::Tensor candidate_scores_, candidate_labels_, candidate_durations_;  // [R, K]
  at::Tensor parents_, tokens_;                                           // [R] int32
  at::Tensor from_h_, from_c_;                                            // [L, R, P]; LSTM
  at::Tensor texts_;                                                      // [R, C] int64; stateless

  fused_beam::Hidden hidden_{};
  fused_beam::Expand expand_{};
  fused_beam::Choose choose_{};
  fused_beam::Gather gather_{};
};

}  // namespace rtfx
