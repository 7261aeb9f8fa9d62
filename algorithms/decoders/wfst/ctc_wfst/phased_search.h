// Token passing with a kernel for each phase of a frame (PhasePassing), driven by the host, which
// keeps the history of tokens. Galvez and Kaldewey, "GPU-Accelerated WFST Beam Search Decoder for
// CTC-based Speech Recognition", 2023, name the costs of this form: kernel launches and waits for
// copies. They also name the two remedies that PhasedSearch::Form offers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <cstdint>
#include <vector>

#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/gpu/graph.h"

namespace rtfx {

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

  int64_t captures() const { return captures_; }  // how often a frame was recorded

 private:
  void upload(const PassingBatch& batch);
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
      searched_;  // of the last two steps: what they used was counted
  c10::cuda::CUDAEvent copied_;
};

}  // namespace rtfx
