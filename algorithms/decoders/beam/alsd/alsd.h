// Alignment-length synchronous decoding of RNN-T and TDT, one utterance at a time (Saon, Tüske,
// Audhkhasi, "Alignment-Length Synchronous Decoding for RNN Transducer", ICASSP 2020). It is the
// plain reference of alsd_pp. The search maximises, over texts y,
//
//   P(y) = sum over alignments a of y of prod_i p(a_i | t_i, y_1 .. y_{u_i})
//
// All hypotheses of a step i have i labels, blanks included. An RNN-T hypothesis of u tokens is
// therefore at frame t = i - u. So equal texts are at equal frames, and their probabilities are
// added. For i = 0 .. T + U_max - 1:
//
//   1. The candidates are each hypothesis with a blank, and with each of its beam_size best tokens.
//   2. A candidate that leaves the last frame becomes a result as well.
//   3. The beam_size best candidates are kept, then equal ones are merged.
//   4. Hypotheses without a frame left are dropped.
//
// TDT (Xu et al. 2023): a label moves in time by its duration, so the hypotheses of a step are at
// different frames. Only those of equal text and frame are merged. A blank of duration 0 moves one
// frame. The number of steps has the same bound, and because of the durations longer texts fit into
// it.
#pragma once

#include <memory>
#include <optional>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/nbest_risk.h"
#include "algorithms/shared/beams/host_beam.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

struct AlsdOptions {
  int64_t beam_size = 4;
  double max_target_ratio = 1;  // U_max as a multiple of T
  int64_t max_target_abs = 0;   // U_max itself, unless 0
  bool score_norm = true;       // rank by score / (tokens + 1)
  int64_t nbest = 1;
  std::optional<MbrOptions> mbr;
  double temperature = 1;    // logits are divided by it
  double blank_penalty = 0;  // subtracted from blank's logit, see blank_penalty.h

  static const OptionTable<AlsdOptions>& table();
};

/// Waits for the device once per step and once at the end. The score is ln P(y) over the alignments
/// that the beam kept. When two alignments are merged, the text keeps the frames of the better one.
/// If no hypothesis ends within U_max tokens, the hypotheses of the beam are the result. Their
/// texts lack the end, and their scores are no ln P(y). The counter `unfinished` is the number of
/// such rows.
class Alsd : public DecoderBase<AlsdOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;

 private:
  std::vector<Hypothesis> search(const at::Tensor& encoded);
  HostBeam candidates(HostLattice& lattice, const HostBeam& live, const HostLogProbs& next) const;

  std::optional<Transducer> transducer_;
  HostReads host_;
  int64_t joint_calls_ = 0, pred_calls_ = 0, steps_ = 0;
  int64_t unfinished_ = 0;  // rows whose result ends before the last frame
};

}  // namespace rtfx
