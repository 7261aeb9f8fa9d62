// Alignment-length synchronous decoding (Saon, Tüske, Audhkhasi, "Alignment-Length Synchronous
// Decoding for RNN Transducer", ICASSP 2020), one utterance at a time: the plain reference of
// alsd_pp.
//
//   P(y) = sum over alignments a of y of prod_i p(a_i | t_i, y_1 .. y_{u_i})
//
// All hypotheses of a step i have i symbols, blanks included. An RNN-T hypothesis of u tokens is
// therefore at frame t = i - u, and equal texts are at equal frames: their probabilities are added.
//
//   for i = 0 .. T + U_max - 1:
//     candidates: each hypothesis with a blank, and with each of its `beam_size` best tokens
//     a candidate that leaves the last frame is a result as well
//     keep the `beam_size` best candidates, then add up equal ones; drop those without a frame left
//
// TDT (Xu et al. 2023): a symbol moves in time by its duration, so hypotheses of a step are at
// frames of their own, and equal ones are those of equal text and frame. A blank of duration 0
// moves one frame. The bound of the steps is the same; with durations longer texts fit into it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/beams/host_beam.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

/// Waits for the device once per step and once at the end. Score: ln P(y) over the alignments that
/// the beam kept. The frames of a text are those of the best alignment at the time when two were
/// added up first. Without a result within U_max tokens, the beam's own hypotheses are the result.
class Alsd : public Decoder {
 public:
  struct Options {
    int64_t beam_size = 4;
    double max_target_ratio = 1;  // U_max as a multiple of T
    int64_t max_target_abs = 0;   // U_max itself, unless 0
    bool score_norm = true;       // rank by score / (tokens + 1)
    int64_t nbest = 1;
    double temperature = 1;  // logits are divided by it
  };

  explicit Alsd(Options options) : options_(options) {}

  Description describe() const override;
  nlohmann::json options() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;

 private:
  std::vector<Hypothesis> search(const at::Tensor& encoded);
  HostBeam candidates(HostLattice& lattice, const HostBeam& live, const HostLogProbs& next) const;

  Options options_;
  std::optional<Transducer> transducer_;
  HostReads host_;
  int64_t joint_calls_ = 0, pred_calls_ = 0, steps_ = 0;
};

}  // namespace rtfx
