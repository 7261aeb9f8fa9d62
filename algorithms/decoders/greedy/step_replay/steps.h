// The two steps of the search for batches of N rows. What the host keeps from step to step, it
// keeps in their inputs: each row's last label, state and prediction.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "algorithms/decoders/greedy/step_replay/step.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx::step_replay {

class Steps {
 public:
  /// Makes the steps for `rows` rows. `transducer` must live as long, and projects everything once.
  Steps(const Transducer& transducer, int64_t rows);

  /// Step::record() of both.
  void record();

  /// All rows before the start symbol.
  void reset();

  /// One step of the predictor for all rows; it counts for those that take() it.
  void predict(bool coalesced, HostReads& reads, Counts& counts) const;
  void take(int64_t row);

  /// The row's frame t of `encoded` [N, T', H] (on the host) is the next to decide on.
  void look_at(const at::Tensor& encoded, int64_t row, int64_t t);
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
