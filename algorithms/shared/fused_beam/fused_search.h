// Tensors as the plain pointers that phases take (arrays.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "algorithms/gpu/parallel.h"
#include "algorithms/gpu/shared_memory.h"
#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/beams/transducer_beams.h"
#include "algorithms/shared/fused_beam/aes_phases.h"
#include "algorithms/shared/fused_beam/alsd_phases.h"
#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/fused_beam/network_phases.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/row_bias.h"
#include "models/acoustic_model.h"

namespace rtfx::fused_beam {

/// Address of a tensor's values, null for an undefined one.
template <class T>
T* data(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<T>() : nullptr;
}

/// A tensor of the model's dtype; it must be contiguous.
Elements elements(const at::Tensor& t);

/// frames: of the utterances, [B] int64.
Beams view_of(const BeamHypotheses& hypotheses, const at::Tensor& frames);

/// states, own_states [R] int32; bias: of R rows. No fusion with a model that is not there, or that
/// would change nothing.
Fusion fusion_of(const NgramLm* lm, const LmOptions* options, const at::Tensor& states,
                 const RowBias& bias, const at::Tensor& own_states);

// Phases where a device's memory is: kernels on a GPU, blocks by the threads of a CPU.

/// run(phase) does the phase on `device`; on a GPU it is enqueued on the current stream.
class RunPhases {
 public:
  explicit RunPhases(at::Device device) {
    if (device.is_cuda()) guard_.set_device(device);
  }

  template <class Phase>
  void operator()(const Phase& phase) const {
    if (guard_.current_device()) {
      PhaseKernel<Phase>::launch(phase, c10::cuda::getCurrentCUDAStream().stream());
      return;
    }
    parallel_ranges(phase.blocks(), [&](int64_t begin, int64_t end) {
      std::vector<std::byte> shared(static_cast<size_t>(phase.shared_bytes()));
      SerialBlock block;
      for (int64_t i = begin; i < end; ++i) phase(block, static_cast<int32_t>(i), shared.data());
    });
  }

 private:
  c10::cuda::OptionalCUDAGuard guard_;
};

/// Throws UserError where blocks of one of the phases would share more memory than a GPU has.
/// where, what, remedy: as for require_shared_memory().
template <class... Phases>
void require_fits(at::Device device, std::string_view where, std::string_view what,
                  std::string_view remedy, const Phases&... phases) {
  if (!device.is_cuda()) return;
  const c10::cuda::CUDAGuard guard(device);
  (require_shared_memory(where, what, phases.shared_bytes(),
                         PhaseKernel<Phases>::most_shared_bytes(), remedy),
   ...);
}

// What fused steps of beam searches share: joint and prediction network for all rows, and the
// arrays of TransducerBeams as the phases see them.
//
//   evaluate_joint   Hidden: act(E[b, t] + g) of each row; a GEMM: the logits
//   advance          a GEMM: recurrent gates of all layers and rows, as they are before the step;
//                    for each layer LstmCell, from the parent's gates and state, and a GEMM: the
//                    input gates of the next; a GEMM: joint.pred. For a stateless prediction
//                    network a few operators

}  // namespace rtfx::fused_beam

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

namespace rtfx::fused_beam {

// A step of ALSD++ (algorithms/decoders/beam/alsd_pp) in some ten kernels in place of LibTorch's
// operators: evaluate_joint, Expand, Choose, advance (fused_rows.h). The best of many values are
// found by rounds of a maximum over a block of threads, so that no vocabulary is sorted. Scores and
// their ties are those of the operators; only roundings differ.

}  // namespace rtfx::fused_beam

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

namespace rtfx::fused_beam {

// A frame of AES++ (algorithms/decoders/beam/aes_pp) in a few kernels for each expansion: what
// AesPp::Search does with operators, in the same order (frame.h has the parts). Scores and their
// ties are those of the operators; only roundings differ.

}  // namespace rtfx::fused_beam

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

namespace rtfx::fused_beam {}  // namespace rtfx::fused_beam
