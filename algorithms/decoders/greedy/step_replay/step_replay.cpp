#include "algorithms/decoders/greedy/step_replay/step_replay.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/decoders/greedy/step_replay/steps.h"
#include "algorithms/gpu/sync_debug.h"
#include "base/nvtx.h"

namespace rtfx {
namespace {

using step_replay::Steps;

/// The host's copy of `encoded`; waits.
at::Tensor on_host(const at::Tensor& encoded, HostReads& reads) {
  const at::TensorOptions options = encoded.options().device(at::kCPU);
  const at::Tensor copy = at::empty(encoded.sizes(), options.pinned_memory(encoded.is_cuda()),
                                    at::MemoryFormat::Contiguous);
  reads.copy(encoded, copy);
  return copy;
}

}  // namespace

const OptionTable<StepReplayOptions>& StepReplayOptions::table() {
  using O = StepReplayOptions;
  static const OptionTable<O> table{{
      option("loop", &O::loop, "steps launched anew, replayed as graphs, and with one upload each",
             {"host", "replay", "coalesced"}),
      option("max_symbols", &O::max_symbols, "tokens per frame", 1, 1000),
  }};
  return table;
}

namespace {
const Register<StepReplay> registered{
    "step_replay", "greedy RNN-T/TDT, state on the host, a graph per step: to compare with"};
}

/// A row (utterance) of the batch.
struct StepReplay::Row {
  explicit Row(int64_t frames) : length(frames) {}

  int64_t length, time = 0;
  int64_t spent = 0;  // tokens at frame `time`
  Hypothesis hypothesis;

  void emit(const Steps::Decided& token) {
    hypothesis.tokens.push_back(static_cast<int32_t>(token.label));
    hypothesis.frames.push_back(static_cast<int32_t>(time));
    hypothesis.durations.push_back(static_cast<int32_t>(token.duration));
    hypothesis.score += token.score;
  }
  /// Only tokens have the duration 0, and max_symbols of them in a row are followed by a step.
  void advance(int64_t duration, int64_t max_symbols) {
    spent = duration == 0 ? spent + 1 : 0;
    if (spent == max_symbols) {
      duration = 1;
      spent = 0;
    }
    time += duration;
  }
};

Description StepReplay::describe() const {
  return {"step_replay", Head::transducer, Description::Exactness::exact, {"rnnt", "tdt"}, "logit"};
}

void StepReplay::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  transducer_.emplace(std::move(model), Transducer::Options{});
  if (limits.max_batch > 0) steps_for(limits.max_batch);
}

Steps& StepReplay::steps_for(int64_t rows) {
  std::unique_ptr<Steps>& steps = steps_[rows];
  if (steps) return *steps;
  const AllowSync allow;
  auto made = std::make_unique<Steps>(*transducer_, rows);
  if (options_.loop != "host" && transducer_->device().is_cuda()) {
    made->record();
    ++captures_;
  }
  steps = std::move(made);
  return *steps;
}

Hypotheses StepReplay::decode(const EncodedBatch& batch) {
  reads_.reset();
  counts_ = {};
  joint_calls_ = joint_rows_ = pred_calls_ = captures_ = 0;
  at::Tensor nan, encoded;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    const at::Tensor projected = transducer_->encode(batch.frames);
    nan = rows_with_nan(projected, batch.lengths);
    encoded = on_host(projected, reads_);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  Steps& steps = steps_for(batch.frames.size(0));
  std::vector<Row> rows(batch.lengths_host.begin(), batch.lengths_host.end());
  search(encoded, steps, rows);
  const ScopedRange trace_back(RangeName::decode_trace_back, joint_calls_ + pred_calls_);
  return on_device(rows, nan);
}

void StepReplay::search(const at::Tensor& encoded, Steps& steps, std::vector<Row>& rows) {
  const bool coalesced = options_.loop == "coalesced";
  const auto predict_for = [&](const std::vector<int64_t>& found) {
    const ScopedRange range(RangeName::decode_predict, joint_calls_ + pred_calls_);
    steps.predict(coalesced, reads_, counts_);
    ++pred_calls_;
    for (const int64_t b : found) steps.accept(b);
  };
  const auto row = [&](int64_t b) -> Row& { return rows[static_cast<size_t>(b)]; };
  const auto finished = [&](int64_t b) { return row(b).time >= row(b).length; };
  std::vector<int64_t> active(rows.size());
  std::iota(active.begin(), active.end(), 0);
  steps.reset();
  predict_for(active);
  std::erase_if(active, finished);
  while (!active.empty()) {
    for (const int64_t b : active) steps.set_frame(encoded, b, row(b).time);
    {
      const ScopedRange range(RangeName::decode_joint, joint_calls_ + pred_calls_);
      steps.decide(coalesced, reads_, counts_);
    }
    ++joint_calls_;
    joint_rows_ += encoded.size(0);
    std::vector<int64_t> found;
    for (const int64_t b : active) {
      const Steps::Decided decided = steps.decided(b);
      if (decided.label != transducer_->blank()) {
        row(b).emit(decided);
        steps.set_label(b, decided.label);
        found.push_back(b);
      }
      row(b).advance(decided.duration, options_.max_symbols);
    }
    std::erase_if(active, finished);
    std::erase_if(found, finished);
    if (!found.empty()) predict_for(found);
  }
}

Hypotheses StepReplay::on_device(const std::vector<Row>& rows, const at::Tensor& nan) const {
  const auto batch = static_cast<int64_t>(rows.size());
  size_t longest = 1;
  for (const Row& row : rows) longest = std::max(longest, row.hypothesis.tokens.size());
  const at::Tensor lengths = at::empty({batch}, at::kInt), scores = at::empty({batch}, at::kFloat),
                   columns = at::zeros({3, batch, static_cast<int64_t>(longest)}, at::kInt);
  for (int64_t b = 0; b < batch; ++b) {
    const Hypothesis& row = rows[static_cast<size_t>(b)].hypothesis;
    lengths.mutable_data_ptr<int32_t>()[b] = static_cast<int32_t>(row.tokens.size());
    scores.mutable_data_ptr<float>()[b] = row.score;
    const auto cells = columns.accessor<int32_t, 3>();
    std::copy(row.tokens.begin(), row.tokens.end(), cells[0][b].data());
    std::copy(row.frames.begin(), row.frames.end(), cells[1][b].data());
    std::copy(row.durations.begin(), row.durations.end(), cells[2][b].data());
  }
  const AllowSync allow;  // transfers from memory that is not pinned wait
  const at::Tensor there = columns.to(nan.device()), sums = scores.to(nan.device());
  return {lengths.to(nan.device()),
          there[0],
          there[1],
          transducer_->is_tdt() ? there[2] : at::Tensor(),
          sums,
          nan.logical_or(sums.isnan())};
}

Counters StepReplay::counters() const {
  return {{"joint_calls", joint_calls_}, {"joint_rows", joint_rows_},
          {"pred_calls", pred_calls_},   {"host_reads", reads_.count()},
          {"uploads", counts_.uploads},  {"graph_launches", counts_.graph_launches},
          {"graph_captures", captures_}};
}

}  // namespace rtfx
