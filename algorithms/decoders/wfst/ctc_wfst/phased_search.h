// In which order steps of a search are enqueued and what they add to the history of tokens is
// copied to the host. Apart from what a step is and who copies.
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

/// Steps: search(step) enqueues one; collect(step) waits for it and sends for its part of the
/// history; wait() waits for all that was sent for.
///
/// Without `double_buffer` each step begins when the host has the history of the one before. With
/// it a step is under way while the host waits for the one before and its history is copied, so
/// that collect() needs room for what two steps count.
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

// Token passing with a kernel for each phase of a frame (phase_passing.h), driven by the host,
// which keeps the history of tokens: the form of the search whose costs are named by Galvez and
// Kaldewey, "GPU-Accelerated WFST Beam Search Decoder for CTC-based Speech Recognition", 2023,
// launching kernels and waiting for copies, with their two remedies.

/// Rows go through their frames together, as many at a time as there are workspaces. After each
/// frame the traces of its tokens are copied to the host: first how many there are, then they
/// themselves, two waits for the device.
class PhasedSearch {
 public:
  struct Form {
    bool replay;         // the kernels of a frame as one recorded graph
    bool double_buffer;  // the next frame is searched meanwhile: one wait for each frame
    bool links;          // with lattices
  };
  PhasedSearch(const PassingMemory& memory, Form form);

  /// Makes room for the workspaces and traces that there are, and with "replay" records, for which
  /// it waits for the device. run() does the same where these have changed.
  void prepare();

  /// Searches the rows as PassingMemory::run() does, with the same results; no paths are written.
  PassingRun run(const PassingBatch& batch, const std::vector<PassingRow>& rows, HostReads& reads);

  /// Traces of the last run, as far as the memory had room for them. Until the next run.
  const PassingTrace* history() const;

  int64_t captures() const { return captures_; }  // times that a frame was recorded

 private:
  void upload(const PassingBatch& batch);
  void launch(PassingPhase phase, int64_t first_row, cudaStream_t stream) const;
  void launch_frame(cudaStream_t stream) const;
  void search(const PassingBatch& batch, const std::vector<PassingRow>& rows, HostReads& reads);

  const PassingMemory& memory_;
  Form form_;
  PassingWorkspaces workspaces_;      // those that the following are for
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
