// CTC with a lexicon and a language model over words: token passing over a decoding graph on a GPU,
// with a block of threads for each utterance. algorithms/shared/wfst/search.h has the objective and
// the phases of a frame, which are those of ctc_wfst_cpu:
//
//   best path = argmin over paths pi of   sum over arcs a of pi of cost(a)
//                                       - sum over emitting arcs a of pi of lp[t, column(a)]
//                                       + final cost of the end of pi
//
// Both decoders return equal results for equal log-probabilities. By default one kernel runs the
// loop over all frames. With the option "loop" as host or replay, the phases are kernels of their
// own and the host keeps the history (PhasedSearch), which shows the cost of that form.
//
// Token passing on GPUs was published by Chong et al., "A Fully Data Parallel WFST-based Large
// Vocabulary Continuous Speech Recognition on a Graphics Processing Unit", 2009. Chen et al.
// describe it with lattices in "A GPU-based WFST Decoder with Exact Lattice Generation", 2018.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/search.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "algorithms/shared/wfst/wfst_options.h"
#include "algorithms/streams.h"

namespace rtfx {

// Token passing with a kernel for each phase of a frame (PhasePassing), driven by the host, which
// keeps the history of tokens. Galvez and Kaldewey, "GPU-Accelerated WFST Beam Search Decoder for
// CTC-based Speech Recognition", 2023, name the costs of this form: kernel launches and waits for
// copies. They also name the two remedies that PhasedSearch::Form offers.

/// Runs the steps of a search and copies their part of the history to the host. search(step)
/// enqueues a step. collect(step) waits for it and enqueues the copy of its part of the history.
/// wait() waits for all copies.
///
/// Without `double_buffer`, each step begins when the host has the history of the step before. With
/// it, a step is in flight while the host waits for the step before and copies its history. So
/// collect() needs the counts of two steps.
template <class Steps>
void search_steps(Steps& steps, int64_t count, bool double_buffer) {
  for (int64_t step = 0; step < count; ++step) {
    steps.search(step);
    if (!double_buffer) {
      steps.collect(step);
      steps.wait();
    } else if (step > 0) {
      steps.collect(step - 1);
    }
  }
  if (!double_buffer || count == 0) return;
  steps.collect(count - 1);
  steps.wait();
}

/// Rows go through their frames together, as many at a time as there are workspaces. After each
/// frame the host copies the number of traces, then the traces themselves, and so waits twice for
/// the device.
class PhasedSearch {
 public:
  struct Form {
    bool replay;         // the kernels of a frame are one recorded graph
    bool double_buffer;  // the next frame is searched during the copies: one wait for each frame
    bool links;          // the search keeps lattices
  };
  PhasedSearch(const PassingMemory& memory, Form form);

  /// Allocates memory for the current workspaces and traces. With `replay`, it also records the
  /// graph and waits for the device. run() does this again if workspaces or traces have changed.
  void prepare();

  /// Searches the rows with the results of PassingMemory::run(), but writes no paths.
  PassingRun run(const PassingBatch& batch, const std::vector<PassingRow>& rows, HostReads& reads);

  /// Returns the traces of the last run, as far as there was room for them. They are valid until
  /// the next run.
  const PassingTrace* history() const;

  /// Returns how many times a frame was recorded since reset_captures().
  int64_t captures() const { return captures_; }
  void reset_captures() { captures_ = 0; }

 private:
  void upload(const PassingBatch& batch);
  void record_frame();  // into frame_
  void launch(PassingPhase phase, int64_t first_row, cudaStream_t stream) const;
  void launch_frame(cudaStream_t stream) const;
  void search(const PassingBatch& batch, const std::vector<PassingRow>& rows, HostReads& reads);

  const PassingMemory& memory_;
  Form form_;
  PassingWorkspaces workspaces_;      // the workspaces that the following tensors belong to
  at::Tensor batch_, progress_;       // PassingBatch, PassingProgress [workspaces], on the device
  at::Tensor history_, traces_used_;  // PassingTrace [capacity], [2] uint64: on the host, pinned
  Graph frame_;
  int64_t captures_ = 0;
  c10::cuda::CUDAStream copies_;
  std::array<c10::cuda::CUDAEvent, 2>
      searched_;  // of the last two steps, after the copies of their counts
  c10::cuda::CUDAEvent copied_;
};

/// Streams that are searched on a GPU. advance() searches all pieces with one kernel and waits for
/// the GPU twice: for their ends, and for their traces. It waits twice more whenever the memory of
/// traces, or of a stream's tokens, must grow. partial() and finish() do the same, with a piece
/// without frames, for a stream that was never advanced. open() and close() do not wait.
class GpuStreams : public StreamSearch {
 public:
  /// `word_costs` [W + 1] float32 on the GPU are the default of streams that are opened without
  /// word costs. They may be undefined.
  GpuStreams(std::shared_ptr<PassingMemory> memory, float beam, int64_t max_active,
             at::Tensor word_costs);

  int64_t open(std::optional<std::vector<float>> word_costs) override;
  void set_word_costs(int64_t stream, std::optional<std::vector<float>> word_costs) override;
  void advance(std::span<const WfstPiece> pieces) override;
  WfstPath partial(int64_t stream) override;
  WfstPath finish(int64_t stream) override;
  void close(int64_t stream) override;

 private:
  struct Stream {
    int32_t entry;
    at::Tensor word_costs;
    PieceHistory history;
    bool has_frames = false;
  };

  at::Tensor on_device(const std::optional<std::vector<float>>& word_costs) const;

  void make_entries(int64_t entries, int64_t capacity);
  /// Returns the stream's history, which holds at least the start of the search.
  const PieceHistory& begun(int64_t stream);
  /// Searches the pieces `open` (indices into `streams`). Those without room stay in `open`.
  void search(std::span<const WfstPiece> pieces, const std::vector<Stream*>& streams,
              std::vector<size_t>& open);

  std::shared_ptr<PassingMemory> memory_;
  float beam_;
  int64_t max_active_;
  at::Tensor word_costs_;
  at::Tensor store_state_, store_cost_;  // [entries, capacity]
  std::vector<int32_t> free_entries_;    // the last one is the next to be used
  OpenStreams<Stream> streams_;
  std::vector<int32_t> positions_;  // scratch of PieceHistory::append()
  HostReads reads_;
};

/// Results and their marks are those of ctc_wfst_cpu, and do not depend on the batch or on the
/// timing of threads. decode() waits for the GPU three times: for the marks of rows, for the ends
/// of the paths, and for their arcs. It waits once more for n-best lists, and whenever memory must
/// grow. If the host drives the loop, it does not wait for arcs. It waits twice for the start and
/// for each frame of the longest row. With double buffers, it waits once for each of these, and
/// once at the end. Rows beyond the number of workspaces are searched afterwards, with waits of
/// their own.
class CtcWfst : public DecoderBase<WfstOptions, &gpu_wfst_options> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  /// Copies the graph to the GPU. Throws UserError without a GPU. Throws UserError with the sizes
  /// if the graph and a search do not fit into the GPU's memory.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// kept_tokens is the sum over all frames, and workspaces is the number of utterances that were
  /// searched at once. not_final is the number of rows whose path ends in no final state. The other
  /// counters are host_reads and, with "replay", graph_captures.
  Counters counters() const override { return counters_; }
  std::vector<std::string> boosted_words() const override { return boosting_.words(); }
  std::shared_ptr<const CompiledBias> compile_bias(const BiasRequest& request) const override {
    return boosting_.compile(request);
  }

  /// Returns the best path of each row. lp [B, T', V+1] float32 holds scaled log-probabilities,
  /// contiguous, on the GPU. `lengths` has the frames of each row, and `biases` is as in
  /// EncodedBatch. Unless `lists` is null, it gets the best paths of up to options().nbest word
  /// sequences of each row, from a lattice that the host searches; this waits once more for the
  /// GPU.
  std::vector<WfstPath> search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                               const RowBiases& biases = {},
                               std::vector<std::vector<WfstPath>>* lists = nullptr);

  /// The streams share the graph and the memory of searches with the decoder, so that only one of
  /// both may work at a time. They use one kernel, whatever the option "loop" says: see GpuStreams.
  /// The search for the n-best list of a stream that ends follows that option, and waits as
  /// decode() does.
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;

 private:
  at::Tensor row_word_costs(const CompiledBias& bias) const;
  PassingRun run(const PassingBatch& batch, const std::vector<PassingRow>& rows);
  std::vector<WfstPath> read_paths(const PassingRun& run, const std::vector<size_t>& order,
                                   const at::Tensor& arcs);
  void read_lists(const PassingRun& run, const std::vector<size_t>& order,
                  const std::vector<WfstPath>& paths, std::vector<std::vector<WfstPath>>& lists);

  std::shared_ptr<const AcousticModel> model_;
  std::shared_ptr<PassingMemory> memory_;
  std::optional<PhasedSearch> phased_;  // unless one kernel drives the loop
  WordBoosting boosting_;
  at::Tensor word_costs_;  // [W + 1] float32 of boosting_, undefined if no word is boosted
  HostReads reads_;
  Counters counters_;
};

}  // namespace rtfx
