// Greedy search with its state on the host and two steps on the device, as in parakeet.cpp (pull
// request 46, "replayable transducer CUDA graphs"). It is here to be compared with: where the state
// stays on the device, as in the other decoders, there is nothing to transfer.
//
//   predict   (g, s') = predictor(y, s)                for all rows of the batch
//   decide    k, d    = argmax joint(E[b, t_b], g_b)   for all rows of the batch
//
// The host keeps E, g, s = (h, c) and each row's frame t_b. It decides; where k is a token, the row
// takes g and s' of the next prediction; then t_b moves on by d (RNN-T: by 1 after a blank, by 0
// after a token). Rows at their end are masked and stay in the batch, so its size N is constant.
//
// The forms differ in how a step gets to the GPU:
//
//   rebuild     operator by operator; the inputs one by one, each waited for: y, and h and c of
//   each
//               layer (1 + 2 L transfers for L layers); E[b, t_b] and g (2)
//   replay      the same transfers; the step is one graph, recorded once for each N
//   coalesced   the same graph; its inputs in one transfer that is not waited for
//
// A step's outputs come back in one transfer, which is waited for in every form. y is the id of the
// label: the step itself looks its embedding up. All forms run the same operators and give the same
// results. On a CPU there are no graphs, and the transfers are copies.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "algorithms/decoder_base.h"
#include "algorithms/decoders/greedy/step_replay/steps.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

struct StepReplayOptions {
  std::string loop = "coalesced";  // "host" (launched anew), "replay", "coalesced"
  int64_t max_symbols = 10;        // tokens per frame

  static const OptionTable<StepReplayOptions>& table();
};

/// Waits for the device once per step, before the search for E and after it for the results, and
/// unless coalesced for every upload; a batch of a new size also waits while its graphs are
/// recorded. host_reads = 1 + joint_calls + pred_calls. joint_calls: the most decisions that a row
/// needs. pred_calls: 1 for the start, and 1 for each round of decisions with a token in a row that
/// goes on.
class StepReplay : public DecoderBase<StepReplayOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  /// Makes the steps, and with them the graphs, for batches of limits.max_batch rows.
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  /// "graph_captures": batch sizes for which the last decode() recorded its two graphs, 0 or 1.
  Counters counters() const override;

 private:
  struct Row;
  step_replay::Steps& steps_for(int64_t rows);
  void search(const at::Tensor& encoded, step_replay::Steps& steps, std::vector<Row>& rows);
  /// nan: [B] bool on the device, rows whose frames hold a NaN.
  Hypotheses on_device(const std::vector<Row>& rows, const at::Tensor& nan) const;

  std::optional<Transducer> transducer_;
  std::map<int64_t, std::unique_ptr<step_replay::Steps>> steps_;  // by rows of a batch
  HostReads reads_;
  step_replay::Counts counts_;
  int64_t joint_calls_ = 0, joint_rows_ = 0, pred_calls_ = 0, captures_ = 0;
};

}  // namespace rtfx
