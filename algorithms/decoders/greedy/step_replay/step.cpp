#include "algorithms/decoders/greedy/step_replay/step.h"

#include <utility>

namespace rtfx::step_replay {

Step::Step(Mirror inputs, Mirror outputs, std::function<void()> work)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), work_(std::move(work)) {}

void Step::record() {
  work_();  // once for real, so that libraries make what they make at the first call
  retry_out_of_memory([this] { graph_ = Graph::record([this](GraphRecorder&) { work_(); }); });
}

void Step::run(bool coalesced, HostReads& reads, Counts& counts) const {
  counts.uploads += coalesced ? inputs_.upload() : inputs_.upload_pieces();
  if (graph_) {
    graph_.launch(c10::cuda::getCurrentCUDAStream().stream());
    ++counts.graph_launches;
  } else {
    work_();
  }
  outputs_.download(reads);
}

}  // namespace rtfx::step_replay
