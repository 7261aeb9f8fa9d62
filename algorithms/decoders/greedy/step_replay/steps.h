// The two steps of the search for batches of N rows, and the memory that exists on the host and on
// the device. The host keeps in their inputs what must last from step to step: each row's last
// label, state and prediction.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx::step_replay {

/// Tensors that exist twice, on the host and on the device. Each side is one block of memory whose
/// address stays: what a recorded graph needs on the device, and what makes one transfer of several
/// tensors. The host's block is pinned where the device is a GPU. On a CPU there are two blocks as
/// well, so that the same transfers take place.
class Mirror {
 public:
  /// A tensor of `sizes`. Its slices along the first dimension are the pieces of upload_pieces().
  struct Shape {
    std::vector<int64_t> sizes;
    at::ScalarType dtype;
  };

  /// Zeros on both sides.
  Mirror(const std::vector<Shape>& shapes, at::Device device);

  /// One contiguous tensor per shape, in their order.
  const std::vector<at::Tensor>& host() const { return host_; }
  const std::vector<at::Tensor>& device() const { return device_; }

  /// Host to device, all at once. Does not wait: the host's side must not change before the current
  /// stream was waited for. Returns the number of transfers: 1.
  int64_t upload() const;
  /// Host to device, part by part; waits for each. Returns the number of transfers.
  int64_t upload_pieces() const;
  /// Device to host, all at once; waits.
  void download(HostReads& reads) const;

 private:
  struct Part {
    at::Tensor host, device;
  };
  at::Tensor host_block_, device_block_;
  std::vector<at::Tensor> host_, device_;
  std::vector<Part> parts_;
};

/// Row `row` of the second dimension, between two contiguous host tensors of the same shape and
/// type.
void copy_row(const at::Tensor& from, const at::Tensor& to, int64_t row);

/// Counts of the work that the host asked for.
struct Counts {
  int64_t uploads = 0;
  int64_t graph_launches = 0;
};

/// One step of a search whose state is on the host: inputs go up, work runs, outputs come down.
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

/// Both steps for N rows.
class Steps {
 public:
  /// Makes the steps for `rows` rows. `transducer` must live as long, and projects everything once.
  Steps(const Transducer& transducer, int64_t rows);

  /// Step::record() of both.
  void record();

  /// All rows before the start symbol.
  void reset();

  /// Runs one step of the prediction network for all rows. accept() moves a row to its result.
  void predict(bool coalesced, HostReads& reads, Counts& counts) const;
  void accept(int64_t row);

  /// Sets frame t of `encoded` [N, T', H], on the host, as the one that the row decides on next.
  void set_frame(const at::Tensor& encoded, int64_t row, int64_t t);
  /// One decision for all rows.
  void decide(bool coalesced, HostReads& reads, Counts& counts) const;

  struct Decided {
    int64_t label;     // blank or token
    float score;       // logit
    int64_t duration;  // frames to advance
  };
  Decided decided(int64_t row) const;
  /// The row's last label, for predict().
  void set_label(int64_t row, int64_t label);

 private:
  Steps(const Transducer& transducer, const Transducer::Prediction& like);

  int64_t blank_;
  std::vector<at::Tensor> initial_state_;  // as in the predictor's inputs, on the host
  // Inputs: labels [1, N] int64 and the state; outputs: g [1, N, H] and the state after the labels.
  Step predictor_;
  // Inputs: frames and g, [1, N, H]; outputs, [1, N]: label int64, score float32, duration int64.
  Step joint_;
};

}  // namespace rtfx::step_replay
