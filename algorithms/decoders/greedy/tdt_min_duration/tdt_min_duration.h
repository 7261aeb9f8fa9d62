// TDT frame-looping with the smallest predicted duration of the batch. It is NOT exact.
//
// This is the batched TDT baseline of the literature (Bataev et al. 2024, Table 2). All rows share
// the frame t, and all skip the smallest of the durations that the rows predict. A row with a
// longer duration decodes the frames in between again, so results depend on the other rows of the
// batch. A row that has ended predicts durations from its last frame, and a row without frames
// predicts none. At batch size 1 the results equal those of exact search.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/transducer/transducer.h"

namespace rtfx {

struct TdtMinDurationOptions {
  int64_t max_symbols = 10;
  std::string score_kind = "logit";
  std::string host_reads = "flag";  // or "rows", as in the published baseline
  double blank_penalty = 0;         // subtracted from blank's logit, see blank_penalty.h

  static const OptionTable<TdtMinDurationOptions>& table();
};

/// Waits for the device once per evaluation, for the shared duration. If that is 0, it waits once
/// more, to learn whether any row goes on.
///
/// With "host_reads": "rows" hypotheses grow on the host, as in frame_looping. decode() then also
/// waits once for each row and evaluation. For each emitted token it waits three times more: once
/// for the token, once for its duration and once for its score.
class TdtMinDuration : public DecoderBase<TdtMinDurationOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;

 private:
  std::optional<Transducer> transducer_;
  HostReads host_;
  int64_t joint_calls_ = 0, joint_rows_ = 0, pred_calls_ = 0;
};

}  // namespace rtfx
