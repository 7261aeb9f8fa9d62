#include "algorithms/decoders/greedy/step_replay/step_replay.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/option_help.h"
#include "base/gpu/rounding.h"
#include "base/nvtx.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx::step_replay {
namespace {

constexpr int64_t kAlignment = 256;  // bytes, as for separate allocations

int64_t bytes_of(const Mirror::Shape& shape) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(shape.dtype));
  for (const int64_t size : shape.sizes) bytes *= size;
  return bytes;
}

/// Returns the tensors of a state, with the row as their second dimension.
std::vector<at::Tensor> parts_of(const PredictionState& state) {
  if (state.h.defined()) return {state.h, state.c};
  return {state.context.unsqueeze(0)};
}

/// Returns the state that a predictor step holds in its tensors from index 1 on. It inverts
/// parts_of().
PredictionState state_in(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 3) return {tensors[1], tensors[2], {}};
  return {{}, {}, tensors[1][0]};
}

Step make_predictor(const Transducer& transducer, const Transducer::Prediction& like) {
  const int64_t rows = like.output.size(0), width = like.output.size(1);
  std::vector<Mirror::Shape> inputs = {{{1, rows}, at::kLong}},
                             outputs = {{{1, rows, width}, like.output.scalar_type()}};
  for (const at::Tensor& part : parts_of(like.state)) {
    inputs.push_back({part.sizes().vec(), part.scalar_type()});
    outputs.push_back(inputs.back());
  }
  Mirror in(inputs, transducer.device()), out(outputs, transducer.device());
  const auto work = [&transducer, labels = in.device()[0][0], before = state_in(in.device()),
                     output = out.device()[0][0], after = state_in(out.device())]() mutable {
    const Transducer::Prediction next = transducer.predict(labels, before);
    output.copy_(next.output);
    after.assign(next.state);
  };
  return {std::move(in), std::move(out), work};
}

Step make_joint(const Transducer& transducer, const Transducer::Prediction& like) {
  const int64_t rows = like.output.size(0), width = like.output.size(1);
  const Mirror::Shape vectors{{1, rows, width}, like.output.scalar_type()};
  Mirror in({vectors, vectors}, transducer.device());
  Mirror out({{{1, rows}, at::kLong}, {{1, rows}, at::kFloat}, {{1, rows}, at::kLong}},
             transducer.device());
  const auto work = [&transducer, frames = in.device()[0][0], output = in.device()[1][0],
                     labels = out.device()[0][0], scores = out.device()[1][0],
                     durations = out.device()[2][0]] {
    const Decision decision = transducer.decide(frames, output);
    labels.copy_(decision.labels);
    scores.copy_(decision.scores);
    durations.copy_(decision.durations);
  };
  return {std::move(in), std::move(out), work};
}

}  // namespace

Mirror::Mirror(const std::vector<Shape>& shapes, at::Device device) {
  std::vector<int64_t> begins;
  int64_t bytes = 0;
  for (const Shape& shape : shapes) {
    begins.push_back(bytes);
    bytes += round_up(bytes_of(shape), kAlignment);
  }
  const at::TensorOptions options(at::kByte);
  device_block_ = at::zeros({bytes}, options.device(device));
  host_block_ = at::zeros({bytes}, options.pinned_memory(device.is_cuda()));
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto part = [&](const at::Tensor& block) {
      return block.narrow(0, begins[i], bytes_of(shapes[i]))
          .view(shapes[i].dtype)
          .view(shapes[i].sizes);
    };
    host_.push_back(part(host_block_));
    device_.push_back(part(device_block_));
    for (int64_t k = 0; k < shapes[i].sizes.front(); ++k)
      parts_.push_back({host_.back()[k], device_.back()[k]});
  }
}

int64_t Mirror::upload() const {
  device_block_.copy_(host_block_, /*non_blocking=*/true);
  return 1;
}

int64_t Mirror::upload_pieces() const {
  const AllowSync allow;
  for (const Part& part : parts_) part.device.copy_(part.host);
  return static_cast<int64_t>(parts_.size());
}

void Mirror::download(HostReads& reads) const { reads.copy(device_block_, host_block_); }

void copy_row(const at::Tensor& from, const at::Tensor& to, int64_t row) {
  const int64_t rows = from.size(0) * from.size(1);
  const size_t bytes = rows == 0 ? 0 : from.nbytes() / static_cast<size_t>(rows);
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  for (int64_t i = row; i < rows; i += from.size(1)) {
    const size_t offset = static_cast<size_t>(i) * bytes;
    if (bytes > 0) std::memcpy(target + offset, source + offset, bytes);
  }
}

Step::Step(Mirror inputs, Mirror outputs, std::function<void()> work)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), work_(std::move(work)) {}

void Step::record() {
  work_();  // once without recording, so that libraries can do their first setup
  retry_out_of_memory([this] { graph_ = Graph::record([this](GraphRecorder&) { work_(); }); });
}

void Step::run(bool coalesced, HostReads& reads, Counts& counts) const {
  counts.uploads += coalesced ? inputs_.upload() : inputs_.upload_pieces();
  if (graph_) {
    graph_.launch(c10::cuda::getCurrentCUDAStream().stream());
    ++counts.graph_launches;
  } else {
    work_();
  }
  outputs_.download(reads);
}

Steps::Steps(const Transducer& transducer, int64_t rows)
    : Steps(transducer, transducer.start(rows)) {}

Steps::Steps(const Transducer& transducer, const Transducer::Prediction& like)
    : blank_(transducer.blank()),
      predictor_(make_predictor(transducer, like)),
      joint_(make_joint(transducer, like)) {
  for (const at::Tensor& part : parts_of(transducer.initial_state(like.output.size(0))))
    initial_state_.push_back(part.to(at::kCPU));
}

void Steps::record() {
  predictor_.record();
  joint_.record();
}

void Steps::reset() {
  predictor_.input(0).fill_(blank_);
  for (size_t i = 0; i < initial_state_.size(); ++i)
    predictor_.input(i + 1).copy_(initial_state_[i]);
}

void Steps::predict(bool coalesced, HostReads& reads, Counts& counts) const {
  predictor_.run(coalesced, reads, counts);
}

void Steps::accept(int64_t row) {
  copy_row(predictor_.output(0), joint_.input(1), row);
  for (size_t i = 1; i <= initial_state_.size(); ++i)
    copy_row(predictor_.output(i), predictor_.input(i), row);
}

void Steps::set_frame(const at::Tensor& encoded, int64_t row, int64_t t) {
  const at::Tensor& input = joint_.input(0);
  const size_t bytes = static_cast<size_t>(input.size(2)) * input.element_size();
  std::memcpy(static_cast<char*>(input.mutable_data_ptr()) + static_cast<size_t>(row) * bytes,
              static_cast<const char*>(encoded.const_data_ptr()) +
                  static_cast<size_t>(row * encoded.size(1) + t) * bytes,
              bytes);
}

void Steps::decide(bool coalesced, HostReads& reads, Counts& counts) const {
  joint_.run(coalesced, reads, counts);
}

Steps::Decided Steps::decided(int64_t row) const {
  return {data_of<int64_t>(joint_.output(0))[row], data_of<float>(joint_.output(1))[row],
          data_of<int64_t>(joint_.output(2))[row]};
}

void Steps::set_label(int64_t row, int64_t label) {
  predictor_.input(0).mutable_data_ptr<int64_t>()[row] = label;
}

}  // namespace rtfx::step_replay

namespace rtfx {

namespace {

using step_replay::Steps;

/// Copies `encoded` to the host and waits.
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
      option("loop", &O::loop,
             "Form of a step. `host`: the CPU launches each operator and uploads inputs one by "
             "one. `replay`: a recorded CUDA graph, with the same uploads. `coalesced`: that "
             "graph, with one upload.",
             {"host", "replay", "coalesced"}),
      max_symbols_option(&O::max_symbols),
      blank_penalty_option(&O::blank_penalty),
  }};
  return table;
}

namespace {
const Register<StepReplay> registered{
    "step_replay",
    "Greedy search of RNN-T, TDT and multi-blank RNN-T whose state stays on the CPU, which starts "
    "every step; for comparison"};
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
  /// Moves the row on by `duration` frames. Only tokens have the duration 0. After max_symbols of
  /// them at a frame, the row moves on by one frame.
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
  using Exactness = Description::Exactness;
  return {"step_replay",
          Head::transducer,
          options_.blank_penalty != 0 ? Exactness::approximate : Exactness::exact,
          {"rnnt", "tdt", "multiblank"},
          "logit"};
}

void StepReplay::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  transducer_.emplace(with_blank_penalty(std::move(model), options_.blank_penalty),
                      Transducer::Options{});
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
  joint_time_ = {};
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
      const auto begin = std::chrono::steady_clock::now();
      steps.decide(coalesced, reads_, counts_);
      joint_time_ += std::chrono::steady_clock::now() - begin;
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
          nan.logical_or(not_finite(sums))};
}

Counters StepReplay::counters() const {
  using std::chrono::duration_cast, std::chrono::microseconds;
  return {{"joint_us", duration_cast<microseconds>(joint_time_).count()},
          {"joint_calls", joint_calls_},
          {"joint_rows", joint_rows_},
          {"pred_calls", pred_calls_},
          {"host_reads", reads_.count()},
          {"uploads", counts_.uploads},
          {"graph_launches", counts_.graph_launches},
          {"graph_captures", captures_}};
}

}  // namespace rtfx
