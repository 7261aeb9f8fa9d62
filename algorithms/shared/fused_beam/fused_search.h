// Fused beam searches on tensors. FusedRows evaluates joint and prediction network for all rows,
// FusedStep does a step of ALSD++, and FusedFrame does a frame of AES++. A GPU runs their phases as
// a few kernels in place of LibTorch's operators, and a CPU runs the same phases on its threads.
// Scores and tie rules equal those of the operators; only roundings differ.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "algorithms/gpu/thread_block.h"
#include "algorithms/shared/beams/beam_hypotheses.h"
#include "algorithms/shared/beams/transducer_beams.h"
#include "algorithms/shared/biasing/device_bias.h"
#include "algorithms/shared/fused_beam/aes_phases.h"
#include "algorithms/shared/fused_beam/alsd_phases.h"
#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/fused_beam/network_phases.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "base/gpu/shared_memory.h"
#include "models/acoustic_model.h"
#include "models/parallel.h"

namespace rtfx::fused_beam {

/// Returns the address of a tensor's values, null for an undefined tensor.
template <class T>
T* data(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<T>() : nullptr;
}

/// Returns a view of a tensor of the model's dtype. The tensor must be contiguous.
Elements elements(const at::Tensor& t);

/// Returns a view of the hypotheses. `frames` [B] int64: lengths of the utterances.
Beams view_of(const BeamHypotheses& hypotheses, const at::Tensor& frames);

/// Returns the fusion with a language model and with biasing, each of which may be missing. states
/// and bias_states are [R] int32, and `bias` has R rows.
Fusion fusion_of(const NgramLm* lm, const LmOptions* options, const at::Tensor& states,
                 const DeviceBias& bias, const at::Tensor& bias_states);

/// Runs phases: run(phase) does the work of a phase on `device`. On a GPU the call enqueues a
/// kernel on the current stream and does not wait. On a CPU the threads of LibTorch do the work of
/// the blocks.
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

/// Throws UserError if the blocks of a phase would share more memory than the GPU has. `where`,
/// `what` and `remedy`: see require_shared_memory().
template <class... Phases>
void require_fits(at::Device device, std::string_view where, std::string_view what,
                  std::string_view remedy, const Phases&... phases) {
  if (!device.is_cuda()) return;
  const c10::cuda::CUDAGuard guard(device);
  (require_shared_memory(where, what, phases.shared_bytes(),
                         PhaseKernel<Phases>::most_shared_bytes(), remedy),
   ...);
}

}  // namespace rtfx::fused_beam

namespace rtfx {

/// The weights of a transducer in the form that fused steps need. They are made once, in prepare().
struct FusedModel {
  explicit FusedModel(std::shared_ptr<const AcousticModel> transducer);

  std::shared_ptr<const AcousticModel> model;
  at::Tensor first_gates;  // [V+1, 4P] input gates of the first LSTM layer for each label
  at::Tensor recurrent;    // [L, P, 4P] W_hh of all LSTM layers, transposed
  /// The joint's output layer, padded with rows of zeros to a multiple of 8. Without the padding,
  /// rows of the product are not aligned, and a GPU takes a slow path.
  Joint::Linear output;
  at::Tensor duration_values;  // [D] int64; undefined for RNN-T
};

/// Joint and prediction network for all rows of a TransducerBeams:
///
///   evaluate_joint   the phase Hidden computes act(E[b, t] + g) of each row; a GEMM gives the
///                    logits
///   advance          a GEMM gives the recurrent gates of all layers and rows from the states
///                    before the step. For each layer, LstmCell computes the new state from the
///                    parent's gates and state, and a GEMM gives the next layer's input gates.
///                    The last GEMM is joint.pred. A stateless prediction network takes a few
///                    operators instead.
///
/// The members get a function run(phase), which must do the work of all blocks of a phase. No
/// member waits for the device, and all can be recorded into a graph.
class FusedRows {
 public:
  /// Takes `beams` at the start of their search. model, lm and beams must outlive this object.
  /// `frame` [1] int64 is the frame of all hypotheses; if it is undefined, each hypothesis has its
  /// own.
  FusedRows(const FusedModel& model, const BeamLm& lm, double temperature, TransducerBeams& beams,
            const at::Tensor& frame = {});

  /// Writes the logits that scoring() refers to.
  template <class Run>
  void evaluate_joint(const Run& run) {
    run(hidden_);
    write_logits();
  }

  /// Moves the prediction network by one step, after Append has written Moves.
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
  fused_beam::Scoring scoring(bool fuses_forced_blank = true) const;
  bool is_tdt() const { return model_.duration_values.defined(); }

 private:
  int64_t layers() const;
  void write_logits();
  fused_beam::Fusion fusion(bool fuses_forced_blank) const;
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
  at::Tensor parents_, tokens_, state_buffer_;  // memory of moves_
  at::Tensor h_, c_;                            // [L, 2, R, P], see LstmCell; LSTM
  at::Tensor recurrent_gates_;                  // [L, R, 4P]; LSTM
  at::Tensor texts_;  // [R, C] int64, last labels, newest first; stateless
  fused_beam::Moves moves_{};
  fused_beam::Hidden hidden_{};
};

/// The memory of `count` candidates for each of `rows` hypotheses.
struct CandidateArrays {
  CandidateArrays(int64_t rows, int64_t count, bool tdt, at::Device device);
  fused_beam::Candidates view() const;
  at::Tensor scores, labels, durations;  // [rows, count]; durations: TDT
};

/// A step of ALSD++ (algorithms/decoders/beam/alsd_pp) or of modified beam search
/// (algorithms/decoders/beam/modified_beam_search) in about ten kernels: evaluate_joint, Expand,
/// Choose, advance. A block of threads finds the best of many values by repeated maxima, so that
/// nobody sorts a vocabulary.
class FusedStep {
 public:
  struct Options {
    int64_t max_symbols;
    double temperature;
    bool merge_finished;
    bool fuses_forced_blank;  // a blank after max_symbols tokens is fused, too
    /// TDT: a step appends a label to the hypotheses at their utterance's earliest frame alone, and
    /// each label moves at least one frame.
    bool one_label_per_frame = false;
    const char* decoder = "alsd_pp";  // name in messages
  };

  /// See FusedRows.
  FusedStep(const FusedModel& model, const BeamLm& lm, const Options& options,
            TransducerBeams& beams);

  /// Does one step of all utterances. Does not wait for the device; can be recorded into a graph.
  void operator()();

  /// Does one step by run(phase), which must do the work of all blocks of a phase.
  template <class Run>
  void step(const Run& run) {
    rows_.evaluate_joint(run);
    run(expand_);
    run(choose_);
    rows_.advance(run);
  }

  at::Tensor any_active;  // [1] bool: a hypothesis has a frame left

 private:
  at::Tensor earliest_;  // [B, 1] int64, see Expand::earliest; undefined unless TDT needs it
  FusedRows rows_;
  CandidateArrays candidates_;
  fused_beam::Expand expand_{};
  fused_beam::Choose choose_{};
};

/// A frame of AES++ (algorithms/decoders/beam/aes_pp) in a few kernels for each expansion. It does
/// the work of AesPp::Search in the order of its operators.
class FusedFrame {
 public:
  struct Options {
    int64_t num_steps;
    int64_t labels;  // number of candidates of a hypothesis
    double gamma;
    double temperature;
    bool count_acoustic_twice;
    bool ask_former_slot;
  };

  /// See FusedRows.
  FusedFrame(const FusedModel& model, const BeamLm& lm, const Options& options,
             TransducerBeams& beams);

  /// These do not wait for the device, and can be recorded into a graph.
  void start_frame();
  void expand();
  void finish_frame();

  /// These do the same by run(phase), which must do the work of all blocks of a phase.
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
  at::Tensor expanding;  // [1] bool: a hypothesis must be expanded at this frame

 private:
  at::Tensor open_;               // [R] bool: the hypothesis is at this frame and has no blank yet
  at::Tensor time_, expansions_;  // [1] int64
  at::Tensor softmax_;            // [R, 4] float32: a RowSoftmax for each row
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
