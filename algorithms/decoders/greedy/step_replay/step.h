// One step of a search whose state is on the host: inputs up, work, outputs down.
#pragma once

#include <cstdint>
#include <functional>

#include "algorithms/decoders/greedy/step_replay/mirror.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/host_read.h"

namespace rtfx::step_replay {

/// Counts of the work that the host asked for.
struct Counts {
  int64_t uploads = 0;
  int64_t graph_launches = 0;
};

class Step {
 public:
  /// `work` reads inputs.device() and writes outputs.device(), all in place.
  Step(Mirror inputs, Mirror outputs, std::function<void()> work);

  /// From now on run() replays a graph of the work. Needs a GPU; waits for it.
  void record();

  /// Takes input() and fills output(). Waits once, at its end, and with `coalesced` false once more
  /// for every part of the inputs.
  void run(bool coalesced, HostReads& reads, Counts& counts) const;

  /// The host's side. To be changed between two runs only.
  const at::Tensor& input(size_t i) const { return inputs_.host()[i]; }
  const at::Tensor& output(size_t i) const { return outputs_.host()[i]; }

 private:
  Mirror inputs_, outputs_;
  std::function<void()> work_;
  Graph graph_;
};

}  // namespace rtfx::step_replay
