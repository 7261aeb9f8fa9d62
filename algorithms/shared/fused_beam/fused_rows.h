// What fused steps of beam searches share: joint and prediction network for all rows, and the
// arrays of TransducerBeams as the phases see them.
//
//   evaluate_joint   Hidden: act(E[b, t] + g) of each row; a GEMM: the logits
//   advance          a GEMM: recurrent gates of all layers and rows, as they are before the step;
//                    for each layer LstmCell, from the parent's gates and state, and a GEMM: the
//                    input gates of the next; a GEMM: joint.pred. For a stateless prediction
//                    network a few operators
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "algorithms/shared/beams/transducer_beams.h"
#include "algorithms/shared/fused_beam/append.h"
#include "algorithms/shared/fused_beam/predict.h"
#include "algorithms/shared/fused_beam/row_scores.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// What fused steps need of a transducer, made once.
struct FusedModel {
  explicit FusedModel(std::shared_ptr<const AcousticModel> transducer);

  std::shared_ptr<const AcousticModel> model;
  at::Tensor first_gates;  // [V+1, 4P], what the first LSTM layer makes of a label
  at::Tensor recurrent;    // [L, P, 4P], W_hh of all LSTM layers, transposed
  /// Of the joint, with rows of zeros up to a multiple of 8: products of another width take a GPU's
  /// slow path, for rows of their result are not aligned.
  Joint::Linear output;
  at::Tensor duration_values;  // [D] int64; undefined for RNN-T
};

/// run(phase), which members are given, must do all that the phase's blocks do. Nothing waits for
/// the device, and all can be recorded into a graph.
class FusedRows {
 public:
  /// For `beams` at the start of their search; model, lm and beams must outlive this. `frame`: of
  /// all hypotheses, [1] int64; undefined: each one's own.
  FusedRows(const FusedModel& model, const BeamLm& lm, double temperature, TransducerBeams& beams,
            const at::Tensor& frame = {});

  /// Writes the logits that scoring() has.
  template <class Run>
  void evaluate_joint(const Run& run) {
    run(hidden_);
    write_logits();
  }

  /// Once Append has said what each row takes.
  template <class Run>
  void advance(const Run& run) {
    if (texts_.defined()) {
      look_up_texts();
      return;
    }
    write_recurrent_gates();
    for (int64_t layer = 0; layer < layers(); ++layer) {
      const at::Tensor input = input_gates(layer);
      run(cell(layer, input));
    }
    project(beams_.prediction.state.h.select(0, layers() - 1));
  }

  fused_beam::Beams view() const { return hidden_.beams; }
  fused_beam::Append append() const;
  fused_beam::Scoring scoring(bool scale_forced_blank = true) const;
  bool is_tdt() const { return model_.duration_values.defined(); }

 private:
  int64_t layers() const;
  void write_logits();
  fused_beam::Fusion fusion(bool scale_forced_blank) const;
  void write_recurrent_gates();
  at::Tensor input_gates(int64_t layer) const;  // [V+1, 4P] for the first layer, else [R, 4P]
  fused_beam::LstmCell cell(int64_t layer, const at::Tensor& input_gates) const;
  void project(const at::Tensor& output);  // joint.pred, [R, P] -> prediction.output
  void look_up_texts();

  const FusedModel& model_;
  const BeamLm lm_;
  const float temperature_;
  TransducerBeams& beams_;
  at::Tensor hidden_units_;                     // [R, H]
  at::Tensor logits_;                           // [R, rows of model_.output]
  at::Tensor parents_, tokens_, state_buffer_;  // of Moves
  at::Tensor h_, c_;                            // [L, 2, R, P], see LstmCell; LSTM
  at::Tensor recurrent_gates_;                  // [L, R, 4P]; LSTM
  at::Tensor texts_;  // [R, C] int64, last labels, newest first; stateless
  fused_beam::Moves moves_{};
  fused_beam::Hidden hidden_{};
};

/// Candidates of `rows` hypotheses, `count` each, and the memory of them.
struct CandidateArrays {
  CandidateArrays(int64_t rows, int64_t count, bool tdt, at::Device device);
  fused_beam::Candidates view() const;
  at::Tensor scores, labels, durations;  // [rows, count]; durations: TDT
};

}  // namespace rtfx
