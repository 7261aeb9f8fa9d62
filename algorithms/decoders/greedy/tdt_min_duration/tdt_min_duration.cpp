#include "algorithms/decoders/greedy/tdt_min_duration/tdt_min_duration.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/transducer/rows_on_host.h"
#include "base/nvtx.h"

namespace rtfx {

const OptionTable<TdtMinDurationOptions>& TdtMinDurationOptions::table() {
  using O = TdtMinDurationOptions;
  static const OptionTable<O> table{{
      max_symbols_option(&O::max_symbols),
      option("score_kind", &O::score_kind, kScoreKindHelp, {"logit", "logprob"}),
      option("host_reads", &O::host_reads, kHostReadsHelp, {"flag", "rows"}),
      blank_penalty_option(&O::blank_penalty),
  }};
  return table;
}

namespace {
const Register<TdtMinDuration> registered{
    "tdt_min_duration",
    "Greedy search of TDT in which all utterances of a batch skip the smallest of their durations, "
    "so that results are inexact"};

/// Returns `encoded` [B, T', X] with the last valid frame of each row in place of the frames beyond
/// its end. Those are undefined, but the durations of finished rows count.
at::Tensor with_last_frame_repeated(const at::Tensor& encoded, const at::Tensor& lengths) {
  const at::Tensor last = (lengths - 1).clamp_min(0).unsqueeze(1);
  const at::Tensor frame = at::minimum(at::arange(encoded.size(1), lengths.options()), last);
  return encoded.gather(1, frame.unsqueeze(2).expand(encoded.sizes()));
}

}  // namespace

Description TdtMinDuration::describe() const {
  return {"tdt_min_duration",   Head::transducer, Description::Exactness::approximate, {"tdt"},
          options_.score_kind,
          /*streams=*/false,
          /*has_own_rule=*/true};
}

void TdtMinDuration::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  transducer_.emplace(with_blank_penalty(std::move(model), options_.blank_penalty),
                      Transducer::Options{false, false, options_.score_kind});
}

Counters TdtMinDuration::counters() const {
  return {{"joint_calls", joint_calls_},
          {"joint_rows", joint_rows_},
          {"pred_calls", pred_calls_},
          {"host_reads", host_.count()}};
}

Hypotheses TdtMinDuration::decode(const EncodedBatch& batch) {
  host_.reset();
  joint_calls_ = joint_rows_ = pred_calls_ = 0;
  const int64_t rows = batch.lengths.size(0);
  at::Tensor encoded;
  {
    const ScopedRange range(RangeName::decode_project, rows);
    encoded = with_last_frame_repeated(transducer_->encode(batch.frames), batch.lengths);
  }
  const ScopedRange range(RangeName::decode_loop, rows);
  PredictionState state = transducer_->initial_state(rows);
  at::Tensor last = at::full_like(batch.lengths, transducer_->blank());
  BatchedHypotheses hypotheses(encoded, batch.lengths, true, encoded.size(1));
  std::optional<RowsOnHost> on_host;
  if (options_.host_reads == "rows") on_host.emplace(rows);
  const int64_t longest = batch.longest();
  at::Tensor has_no_frames;  // [B] bool; undefined if all rows have frames
  if (std::ranges::count(batch.lengths_host, 0) > 0) has_no_frames = batch.lengths == 0;
  int64_t skip = 0;
  for (int64_t t = 0; t < longest; ++t) {
    if (skip > 1) {
      --skip;
      continue;
    }
    const at::Tensor frame = at::full_like(batch.lengths, t);
    at::Tensor active = batch.lengths > t;
    bool stay = true;
    for (int64_t n = 0; stay && n < options_.max_symbols; ++n) {
      const ScopedRange step(RangeName::decode_step, joint_calls_);
      const Transducer::Prediction prediction = transducer_->predict(last, state);
      const Decision decision = transducer_->decide(encoded.select(1, t), prediction.output);
      ++pred_calls_;
      ++joint_calls_;
      joint_rows_ += rows;
      // The minimum is over all rows that have frames, finished and blank ones too.
      at::Tensor durations = decision.predicted;
      if (has_no_frames.defined())
        durations = durations.masked_fill(has_no_frames, std::numeric_limits<int64_t>::max());
      skip = host_.integer(durations.min());
      if (skip == 0 && !host_.any(active)) skip = 1;
      stay = skip == 0;
      active = active.logical_and(decision.is_blank.logical_not());
      if (on_host)
        on_host->append(host_, active,
                        {.labels = decision.labels,
                         .scores = decision.scores,
                         .durations = decision.predicted,
                         .frames = {},
                         .frame = t});
      else
        hypotheses.append(active, decision.labels, frame, decision.predicted, decision.scores);
      state = state.select(active, prediction.state);
      last = at::where(active, decision.labels, last);
    }
  }
  const ScopedRange trace_back(RangeName::decode_trace_back, joint_calls_);
  if (on_host)
    return on_host->result(/*with_durations=*/true,
                           host_.values(rows_with_nan(encoded, batch.lengths)));
  return hypotheses.result();
}

}  // namespace rtfx
