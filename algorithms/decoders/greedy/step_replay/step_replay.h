// Greedy search with its state on the host and two steps on the device, as in parakeet.cpp (pull
// request 46, "replayable transducer CUDA graphs"). It serves for comparison: the other decoders
// keep the state on the device, and have nothing to transfer.
//
//   predict   (g, s') = predictor(y, s)                for all rows of the batch
//   decide    k, d    = argmax joint(E[b, t_b], g_b)   for all rows of the batch
//
// The host keeps E, g, s = (h, c) and each row's frame t_b, and runs the search. If k is a token,
// the row takes g and s' of the next prediction. Then t_b moves on by d (RNN-T: by 1 after a blank,
// by 0 after a token). Rows at their end are masked and stay in the batch, so its size N is
// constant.
//
// The forms differ in how a step gets to the GPU:
//
//   host        The host launches each operator. It transfers the inputs one by one, and waits for
//               each. For L layers, predict has 1 + 2 L inputs: y, and h and c of each layer.
//               decide has 2 inputs: E[b, t_b] and g.
//   replay      The transfers are those of the form host. The step is one graph, which is recorded
//               once for each N.
//   coalesced   The graph is that of the form replay. Its inputs come in one transfer, and the host
//               does not wait for it.
//
// A step's outputs come back in one transfer, and in every form the host waits for it. y is the id
// of the label, and the step itself looks up its embedding. All forms run the same operators and
// give the same results. On a CPU there are no graphs, and the transfers are copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/transducer/transducer.h"

// The two steps of the search for batches of N rows, and the memory that exists on the host and on
// the device. The host keeps in their inputs what must last from step to step: each row's last
// label, state and prediction.
namespace rtfx::step_replay {

/// Tensors that exist twice, on the host and on the device. Each side is one block of memory at a
/// fixed address. A recorded graph needs the fixed address on the device, and one block allows one
/// transfer of several tensors. The host's block is pinned if the device is a GPU. On a CPU there
/// are two blocks as well, so that the same transfers take place.
class Mirror {
 public:
  /// A tensor of `sizes`. Its slices along the first dimension are the pieces of upload_pieces().
  struct Shape {
    std::vector<int64_t> sizes;
    at::ScalarType dtype;
  };

  /// Fills both sides with zeros.
  Mirror(const std::vector<Shape>& shapes, at::Device device);

  /// Returns one contiguous tensor per shape, in the order of the shapes.
  const std::vector<at::Tensor>& host() const { return host_; }
  const std::vector<at::Tensor>& device() const { return device_; }

  /// Copies host to device in one transfer. Does not wait, so the host's side must not change
  /// before the current stream was waited for. Returns the number of transfers, 1.
  int64_t upload() const;
  /// Copies host to device piece by piece, and waits for each piece. Returns the number of
  /// transfers.
  int64_t upload_pieces() const;
  /// Copies device to host in one transfer, and waits for it.
  void download(HostReads& reads) const;

 private:
  struct Part {
    at::Tensor host, device;
  };
  at::Tensor host_block_, device_block_;
  std::vector<at::Tensor> host_, device_;
  std::vector<Part> parts_;
};

/// Copies row `row` of the second dimension between two contiguous host tensors of the same shape
/// and dtype.
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

  /// Records the work as a graph, which run() replays afterwards. Needs a GPU and waits for it.
  void record();

  /// Reads input() and fills output(). Waits once, at its end. If `coalesced` is false, it also
  /// waits once for every piece of the inputs.
  void run(bool coalesced, HostReads& reads, Counts& counts) const;

  /// Returns tensors of the host's side. They may be changed between two runs only.
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
  /// Makes the steps for `rows` rows. `transducer` must outlive this object, and project everything
  /// once.
  Steps(const Transducer& transducer, int64_t rows);

  /// Records both steps, see Step::record().
  void record();

  /// Sets all rows to their state before the start symbol.
  void reset();

  /// Runs one step of the prediction network for all rows. accept() moves a row to its result.
  void predict(bool coalesced, HostReads& reads, Counts& counts) const;
  void accept(int64_t row);

  /// Sets frame t of `encoded` [N, T', H], on the host, as the one that the row decides on next.
  void set_frame(const at::Tensor& encoded, int64_t row, int64_t t);
  /// Makes one decision for all rows.
  void decide(bool coalesced, HostReads& reads, Counts& counts) const;

  struct Decided {
    int64_t label;     // blank or token
    float score;       // logit
    int64_t duration;  // frames to advance
  };
  /// Returns the row's decision of the last decide().
  Decided decided(int64_t row) const;
  /// Sets the row's last label, which predict() reads.
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

namespace rtfx {

struct StepReplayOptions {
  std::string loop = "coalesced";  // "host" (launched anew), "replay", "coalesced"
  int64_t max_symbols = 10;        // tokens per frame
  double blank_penalty = 0;        // subtracted from blank's logit, see blank_penalty.h

  static const OptionTable<StepReplayOptions>& table();
};

/// Waits for the device once per step, once before the search for E, and once after it for the
/// results. Unless coalesced, it also waits for every upload. A batch of a new size also waits
/// while its graphs are recorded. host_reads = 1 + joint_calls + pred_calls. joint_calls is the
/// largest number of decisions that a row needs. pred_calls is 1 for the start, plus 1 for each
/// decision step in which a row finds a token and goes on.
class StepReplay : public DecoderBase<StepReplayOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  /// Makes the steps, and with them the graphs, for batches of limits.max_batch rows.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// "joint_us" is the time of the joint calls in microseconds, from their inputs to their
  /// decisions on the host. "graph_captures" is the number of batch sizes for which the last
  /// decode() recorded its two graphs, 0 or 1.
  Counters counters() const override;

 private:
  struct Row;
  step_replay::Steps& steps_for(int64_t rows);
  void search(const at::Tensor& encoded, step_replay::Steps& steps, std::vector<Row>& rows);
  /// Returns the results on the device. `nan` [B] bool, on the device, marks rows whose frames hold
  /// a NaN.
  Hypotheses on_device(const std::vector<Row>& rows, const at::Tensor& nan) const;

  std::optional<Transducer> transducer_;
  std::map<int64_t, std::unique_ptr<step_replay::Steps>> steps_;  // by rows of a batch
  HostReads reads_;
  step_replay::Counts counts_;
  int64_t joint_calls_ = 0, joint_rows_ = 0, pred_calls_ = 0, captures_ = 0;
  std::chrono::steady_clock::duration joint_time_{};
};

}  // namespace rtfx
