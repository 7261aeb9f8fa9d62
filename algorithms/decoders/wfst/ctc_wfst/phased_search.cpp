#include "algorithms/decoders/wfst/ctc_wfst/phased_search.h"

#include <ATen/ATen.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <algorithm>
#include <functional>

#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "base/gpu/check.h"
#include "base/nvtx.h"

namespace rtfx {
namespace {

constexpr std::array kFramePhases = {
    PassingPhase::choose,  PassingPhase::bound, PassingPhase::expand, PassingPhase::follow,
    PassingPhase::reserve, PassingPhase::link,  PassingPhase::keep};

at::Tensor on_device(size_t bytes, at::Device device) {
  return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).device(device));
}

/// The steps of rows that are searched together, for search_steps(). Step 0 lies before the first
/// frame. The traces of a step lie behind those of the steps before, and no later step changes
/// them, so that they can be copied while the next step is in flight.
struct Steps {
  std::function<void(int64_t step)> enqueue;
  const PassingBatch& batch;
  PassingTrace* history;
  unsigned long long* traces_used;  // counts after the last two steps
  c10::cuda::CUDAStream stream, copies;
  std::array<c10::cuda::CUDAEvent, 2>& searched;
  c10::cuda::CUDAEvent& copied;
  HostReads& reads;
  int64_t& collected;  // number of traces whose copy was enqueued

  void search(int64_t step) {
    enqueue(step);
    RTFX_CUDA(cudaMemcpyAsync(traces_used + step % 2, batch.traces_used, sizeof(*traces_used),
                              cudaMemcpyDeviceToHost, stream));
    searched[static_cast<size_t>(step % 2)].record(stream);
  }

  void collect(int64_t step) {
    reads.wait(searched[static_cast<size_t>(step % 2)]);
    // A count above the capacity means that some rows had no room. All are searched again then.
    const auto used = static_cast<int64_t>(traces_used[step % 2]);
    const int64_t end = std::min(used, batch.trace_capacity);
    if (end == collected) return;
    RTFX_CUDA(cudaMemcpyAsync(history + collected, batch.traces + collected,
                              sizeof(PassingTrace) * static_cast<size_t>(end - collected),
                              cudaMemcpyDeviceToHost, copies));
    collected = end;
  }

  void wait() {
    copied.record(copies);
    reads.wait(copied);
  }
};

}  // namespace

PhasedSearch::PhasedSearch(const PassingMemory& memory, Form form)
    : memory_(memory),
      form_(form),
      batch_(on_device(sizeof(PassingBatch), memory.device())),
      traces_used_(at::empty({2}, at::TensorOptions(at::kLong).pinned_memory(true))),
      copies_(c10::cuda::getStreamFromPool(false, memory.device().index())) {
  nvtxNameCudaStreamA(copies_, "history copies");
}

const PassingTrace* PhasedSearch::history() const {
  return static_cast<const PassingTrace*>(history_.const_data_ptr());
}

PassingRun PhasedSearch::run(const PassingBatch& batch, const std::vector<PassingRow>& rows,
                             HostReads& reads) {
  prepare();
  return memory_.run(batch, rows, reads,
                     [&](const PassingBatch& complete) { search(complete, rows, reads); });
}

void PhasedSearch::prepare() {
  if (!history_.defined() || history_.size(0) < memory_.traces().size(0)) {
    history_.reset();
    history_ = at::empty(memory_.traces().sizes(), at::TensorOptions(at::kInt).pinned_memory(true));
  }
  const PassingWorkspaces& workspaces = memory_.passing_workspaces();
  if (workspaces.best == workspaces_.best && workspaces.workspaces == workspaces_.workspaces)
    return;
  workspaces_ = workspaces;
  progress_ = on_device(sizeof(PassingProgress) * static_cast<size_t>(workspaces.workspaces),
                        memory_.device());
  if (!form_.replay) return;
  // A run without rows loads the kernels onto the device, which cannot be recorded.
  upload({});
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(memory_.device().index());
  launch(PassingPhase::begin, 0, stream);
  launch_frame(stream);
  frame_ = Graph::record([&](GraphRecorder& recorder) { launch_frame(recorder.stream()); });
  ++captures_;
}

void PhasedSearch::upload(const PassingBatch& batch) {
  const at::Tensor host = at::from_blob(const_cast<PassingBatch*>(&batch), {batch_.size(0)},
                                        at::TensorOptions(at::kByte));
  batch_.copy_(host.pin_memory(), /*non_blocking=*/true);
}

void PhasedSearch::launch(PassingPhase phase, int64_t first_row, cudaStream_t stream) const {
  launch_phase(phase, memory_.passing_graph(), workspaces_,
               static_cast<const PassingBatch*>(batch_.const_data_ptr()),
               static_cast<PassingProgress*>(progress_.mutable_data_ptr()), first_row, stream);
}

void PhasedSearch::launch_frame(cudaStream_t stream) const {
  for (const PassingPhase phase : kFramePhases)
    if (phase != PassingPhase::link || form_.links) launch(phase, 0, stream);
}

void PhasedSearch::search(const PassingBatch& batch, const std::vector<PassingRow>& rows,
                          HostReads& reads) {
  upload(batch);
  const auto stream = c10::cuda::getCurrentCUDAStream(memory_.device().index());
  int64_t collected = 0;
  for (size_t first = 0; first < rows.size();
       first += static_cast<size_t>(workspaces_.workspaces)) {
    const size_t end = std::min(rows.size(), first + static_cast<size_t>(workspaces_.workspaces));
    int64_t frames = 0;
    for (size_t n = first; n < end; ++n) frames = std::max<int64_t>(frames, rows[n].frames);
    const auto enqueue = [&](int64_t step) {
      const ScopedRange range(step == 0 ? RangeName::decode_init : RangeName::decode_step, step);
      if (step == 0) {
        launch(PassingPhase::begin, static_cast<int64_t>(first), stream);
      } else if (form_.replay) {
        frame_.launch(stream);
      } else {
        launch_frame(stream);
      }
    };
    Steps steps{enqueue,
                batch,
                static_cast<PassingTrace*>(history_.mutable_data_ptr()),
                static_cast<unsigned long long*>(traces_used_.mutable_data_ptr()),
                stream,
                form_.double_buffer ? copies_ : stream,
                searched_,
                copied_,
                reads,
                collected};
    search_steps(steps, 1 + frames, form_.double_buffer);
    launch(PassingPhase::finish, 0, stream);
  }
}

}  // namespace rtfx
