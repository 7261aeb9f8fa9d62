#include "algorithms/ctc_wfst/ctc_wfst.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "algorithms/common/batched_hypotheses.h"
#include "algorithms/common/transducer.h"
#include "algorithms/ctc_wfst/kernels.h"
#include "algorithms/cuda_graphs/check.h"
#include "algorithms/registry.h"
#include "algorithms/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"

namespace rtfx {
namespace {

constexpr int64_t kBlocksPerProcessor = 2;
constexpr int64_t kFirstTraces = int64_t{1} << 22;
constexpr int64_t kMostTraces = std::numeric_limits<int32_t>::max();

/// Of a block, in bytes per state: best, and twice state, cost and slot.
constexpr int64_t kLaneBytes = sizeof(PassingKey) + 2 * (2 * sizeof(int32_t) + sizeof(float));

int64_t free_bytes() {
  size_t free = 0, total = 0;
  RTFX_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

Description CtcWfst::describe() const {
  return {"ctc_wfst", Head::ctc, Description::Exactness::approximate, {"ctc"}, "logprob"};
}

at::Tensor CtcWfst::upload(const void* data, std::vector<int64_t> shape,
                           at::ScalarType type) const {
  return at::from_blob(const_cast<void*>(data), shape, at::TensorOptions(type)).to(model_->device);
}

void CtcWfst::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  if (!model->device.is_cuda())
    throw UserError("ctc_wfst", "needs a GPU", "use ctc_wfst_cpu, or --device cuda");
  const c10::cuda::CUDAGuard guard(model->device);
  graph_ = load_graph(options_, *model);
  model_ = std::move(model);
  const GraphView& g = graph_->view();
  const int64_t needed = graph_->bytes() + 4 * g.arc_count + g.states * kLaneBytes;
  if (const int64_t free = free_bytes(); needed > free) {
    throw UserError(options_.graph.string(),
                    fmt::format("needs {:.0f} MiB on the GPU for itself and one utterance, where "
                                "{:.0f} MiB are free",
                                mib(needed), mib(free)),
                    "prune the language model, or use ctc_wfst_cpu");
  }
  const std::vector<int32_t> sources = arc_sources(g);
  graph_memory_ = {upload(g.arcs, {g.arc_count, 4}, at::kInt),
                   upload(g.emitting_begin, {g.states + 1}, at::kInt),
                   upload(g.nonemitting_begin, {g.states + 1}, at::kInt),
                   upload(g.final_cost, {g.states}, at::kFloat),
                   upload(sources.data(), {g.arc_count}, at::kInt)};
  passing_graph_ = {g.start,
                    g.columns,
                    static_cast<const GraphArc*>(graph_memory_[0].const_data_ptr()),
                    graph_memory_[1].const_data_ptr<int32_t>(),
                    graph_memory_[2].const_data_ptr<int32_t>(),
                    graph_memory_[3].const_data_ptr<float>(),
                    graph_memory_[4].const_data_ptr<int32_t>()};
  word_costs_.reset();
  if (const auto costs = boosted_word_costs(options_, *graph_); !costs.empty())
    word_costs_ = upload(costs.data(), {static_cast<int64_t>(costs.size())}, at::kFloat);
  lanes_ = {};
  make_lanes(std::max<int64_t>(1, limits.max_batch));
  make_traces(kFirstTraces);
}

/// A lane for each row, as far as the GPU has processors and memory for them; rows wait their turn.
void CtcWfst::make_lanes(int64_t rows) {
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int64_t wanted = std::min(rows, kBlocksPerProcessor * device->multiProcessorCount);
  if (wanted <= lanes_.lanes) return;
  const int64_t states = graph_->view().states;
  // Half of what is free is left to the encoder, the traces and others.
  const int64_t possible = free_bytes() / 2 / (states * kLaneBytes);
  const auto lanes = std::max<int64_t>({1, lanes_.lanes, std::min(wanted, possible)});
  if (lanes == lanes_.lanes) return;
  for (at::Tensor* t : {&best_, &state_, &cost_, &slot_}) t->reset();  // before the new ones
  const auto on_device = at::TensorOptions(model_->device);
  best_ = at::full({lanes, states}, static_cast<int64_t>(kNoKey), on_device.dtype(at::kLong));
  state_ = at::empty({lanes, 2, states}, on_device.dtype(at::kInt));
  cost_ = at::empty({lanes, 2, states}, on_device.dtype(at::kFloat));
  slot_ = at::empty({lanes, 2, states}, on_device.dtype(at::kInt));
  lanes_ = {static_cast<int32_t>(lanes),
            states,
            static_cast<PassingKey*>(best_.mutable_data_ptr()),
            state_.mutable_data_ptr<int32_t>(),
            cost_.mutable_data_ptr<float>(),
            slot_.mutable_data_ptr<int32_t>()};
}

void CtcWfst::make_traces(int64_t capacity) {
  traces_.reset();
  traces_ = at::empty({capacity, 2}, at::TensorOptions(at::kInt).device(model_->device));
}

Hypotheses CtcWfst::decode(const EncodedBatch& batch) {
  const c10::cuda::CUDAGuard guard(model_->device);
  reads_.reset();
  at::Tensor lp, nan;
  {
    const ScopedRange range("decode.project");
    lp = scaled_log_probs(*model_, batch, options_.acoustic_scale);
    // A NaN or +infinity makes the whole frame NaN.
    nan = rows_with_nan(lp.narrow(2, 0, 1), batch.lengths);
  }
  const ScopedRange range("decode.loop");
  const auto paths = search(lp, batch.lengths);
  nan = reads_.values(nan);
  counters_["host_reads"] = reads_.count();
  return wfst_hypotheses(paths, nan, batch.frames.device());
}

std::vector<WfstPath> CtcWfst::search(const at::Tensor& lp, const at::Tensor& lengths) {
  const int64_t rows = lp.size(0), frames = lp.size(1);
  make_lanes(rows);
  // Long utterances first, so that none is left for the end.
  const at::Tensor order =
      std::get<1>(lengths.sort(/*stable=*/true, 0, /*descending=*/true)).to(at::kInt);
  const auto on_device = at::TensorOptions(model_->device);
  const int64_t path_capacity = longest_path(graph_->view(), frames);
  const at::Tensor arcs = at::empty({rows, path_capacity}, on_device.dtype(at::kInt));
  // Ends of the rows, and behind them how many traces were used.
  const auto ends_bytes = static_cast<int64_t>(sizeof(PassingEnd)) * rows;
  const at::Tensor ends = at::empty({ends_bytes + 8}, on_device.dtype(at::kByte));
  const at::Tensor next_row = at::empty({1}, on_device.dtype(at::kInt));

  PassingBatch b;
  b.lp = lp.const_data_ptr<float>();
  b.rows = rows;
  b.frames = frames;
  b.lengths = lengths.const_data_ptr<int64_t>();
  b.order = order.const_data_ptr<int32_t>();
  b.word_costs = word_costs_.defined() ? word_costs_.const_data_ptr<float>() : nullptr;
  b.beam = static_cast<float>(options_.beam);
  b.max_active = options_.max_active;
  b.ends = static_cast<PassingEnd*>(ends.mutable_data_ptr());
  b.traces_used = reinterpret_cast<unsigned long long*>(b.ends + rows);
  b.next_row = next_row.mutable_data_ptr<int32_t>();
  b.path_arcs = arcs.mutable_data_ptr<int32_t>();
  b.path_capacity = path_capacity;

  std::vector<PassingEnd> end(static_cast<size_t>(rows));
  int64_t used = 0;
  for (;;) {
    b.traces = static_cast<PassingTrace*>(traces_.mutable_data_ptr());
    b.trace_capacity = traces_.size(0);
    ends.zero_();
    next_row.zero_();
    launch_token_passing(passing_graph_, lanes_, b,
                         c10::cuda::getCurrentCUDAStream(model_->device.index()).stream());
    const at::Tensor host = reads_.values(ends);
    const auto* bytes = static_cast<const char*>(host.const_data_ptr());
    std::memcpy(end.data(), bytes, static_cast<size_t>(ends_bytes));
    std::memcpy(&used, bytes + ends_bytes, sizeof(used));
    if (used <= b.trace_capacity) break;
    // Utterances without room stopped early, so `used` is only a lower bound.
    if (b.trace_capacity == kMostTraces) {
      throw UserError("ctc_wfst", "the batch keeps more than 2^31 - 1 tokens",
                      "use a smaller batch, beam or max_active");
    }
    make_traces(std::min(kMostTraces, 2 * used));
  }

  int32_t longest = 0;
  for (const PassingEnd& e : end) longest = std::max(longest, e.arcs);
  const at::Tensor tails =
      reads_.values(arcs.narrow(1, path_capacity - longest, longest).contiguous());
  std::vector<WfstPath> paths;
  for (size_t row = 0; row < end.size(); ++row) {
    const int32_t* tail = tails.const_data_ptr<int32_t>() + row * static_cast<size_t>(longest);
    paths.push_back(passing_path(graph_->view(), end[row], tail + longest));
  }
  counters_ = {{"kept_tokens", used}, {"lanes", std::min<int64_t>(rows, lanes_.lanes)}};
  return paths;
}

namespace {

const RegisterDecoder registered{
    {"ctc_wfst", "Viterbi beam search over a graph of lexicon and word LM, on a GPU",
     wfst_options().info(), [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<CtcWfst>(wfst_options().fill(options, where));
     }}};

}  // namespace
}  // namespace rtfx
