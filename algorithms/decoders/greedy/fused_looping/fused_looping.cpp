#include "algorithms/decoders/greedy/fused_looping/fused_looping.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "algorithms/blank_penalty.h"
#include "algorithms/decoders/greedy/fused_looping/kernels.h"
#include "algorithms/decoders/greedy/fused_looping/weights.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/loop_driver.h"
#include "algorithms/option_help.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/streams/piece_streams.h"
#include "algorithms/shared/transducer/transducer.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

/// Each iteration of a graph's while node leaves the GPU idle for a moment, so two steps are
/// unrolled per iteration. A step after the end of the search changes nothing.
constexpr int kStepsPerIteration = 2;

/// Every row has at least this window (frames per step), even if all rows together are then over
/// the budget, because each step has a fixed cost. Of 1, 2 and 3, 3 was the fastest at batch 128.
constexpr int kLeastWindow = 3;

/// Offsets of arrays that lie one after the other in one allocation, each aligned to 256 bytes.
class Layout {
 public:
  template <class T>
  size_t add(int64_t count) {
    const size_t at = bytes_;
    bytes_ += round_up<size_t>(static_cast<size_t>(count) * sizeof(T), 256);
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

at::Tensor bytes_on(at::Device device, size_t count) {
  return at::empty({static_cast<int64_t>(count)}, at::TensorOptions(at::kByte).device(device));
}

/// The result of a batch in one allocation. Its tensors are made after the launch, while the
/// kernels run.
class Output {
 public:
  Output(fused::Search& s, at::Device device) : rows_(s.batch), capacity_(s.capacity) {
    const int64_t slots = int64_t{rows_} * capacity_;
    Layout layout;
    lengths_ = layout.add<int>(rows_);
    scores_ = layout.add<float>(rows_);
    nan_ = layout.add<bool>(rows_);
    tokens_ = layout.add<int>(slots);
    frames_ = layout.add<int>(slots);
    has_durations_ = s.model.durations > 0;
    durations_ = has_durations_ ? layout.add<int>(slots) : 0;
    block_ = bytes_on(device, layout.bytes());
    auto* base = static_cast<char*>(block_.mutable_data_ptr());
    s.token_counts = reinterpret_cast<int*>(base + lengths_);
    s.scores = reinterpret_cast<float*>(base + scores_);
    s.nan = reinterpret_cast<bool*>(base + nan_);
    s.tokens = reinterpret_cast<int*>(base + tokens_);
    s.token_frames = reinterpret_cast<int*>(base + frames_);
    s.token_durations = has_durations_ ? reinterpret_cast<int*>(base + durations_) : nullptr;
  }

  Hypotheses hypotheses() const {
    const auto per_row = [&](size_t at, at::ScalarType type) { return view(at, rows_, type); };
    const auto per_token = [&](size_t at) {
      return view(at, int64_t{rows_} * capacity_, at::kInt).view({rows_, capacity_});
    };
    return {per_row(lengths_, at::kInt),  per_token(tokens_),
            per_token(frames_),           has_durations_ ? per_token(durations_) : at::Tensor(),
            per_row(scores_, at::kFloat), per_row(nan_, at::kBool)};
  }

 private:
  at::Tensor view(size_t at, int64_t count, at::ScalarType type) const {
    const auto bytes = count * static_cast<int64_t>(c10::elementSize(type));
    return block_.narrow(0, static_cast<int64_t>(at), bytes).view(type);
  }

  int rows_, capacity_;
  bool has_durations_;
  size_t lengths_, scores_, nan_, tokens_, frames_, durations_;
  at::Tensor block_;
};

}  // namespace

const OptionTable<FusedLoopingOptions>& FusedLoopingOptions::table() {
  using O = FusedLoopingOptions;
  static const OptionTable<O> table{{
      option("loop", &O::loop,
             "Execution of the search loop. `persistent`: one kernel runs it. `graph`: the GPU "
             "runs it as one CUDA graph. `host`: the CPU launches each step and waits for the GPU.",
             {"persistent", "graph", "host"}),
      option("window", &O::window,
             "Largest number of frames of an utterance that one step evaluates.", 1, 64),
      option("frames_per_step", &O::frames_per_step,
             "Target for the number of frames of one step, over all active utterances. Each of "
             "them gets an equal share, but at least 3 frames (or `window`, if that is less) and "
             "at most `window`.",
             1, 65536),
      max_symbols_option(&O::max_symbols),
      option("lm", &O::lm, kGreedyLmHelp, greedy_lm_options()),
      option("boost", &O::boost, kBoostHelp, phrase_boost_options()),
      allowed_option(&O::allowed),
      blank_penalty_option(&O::blank_penalty),
      skip_blank_option(&O::skip_blank),
  }};
  return table;
}

namespace {
const RegisterSkipping<FusedLooping> registered{
    "fused_looping",
    "Greedy search of RNN-T, TDT and multi-blank RNN-T in fused CUDA kernels; the fastest one, "
    "needs a GPU",
    kNeedsGpu};
}

struct FusedLooping::Prepared {
  Prepared(const AcousticModel& model, const Options& options, const GreedyLm& lm)
      : options(options),
        device(model.device),
        frame(at::zeros({1, 1, model.joint->encoder().weight.size(1)},
                        at::TensorOptions(model.dtype).device(device))),
        weights(model),
        persistent(weights.view().precision),
        kernels(weights.view().precision, weights.view().layers),
        search(bytes_on(device, sizeof(fused::Search))),
        totals(at::zeros({fused::kCounts}, at::TensorOptions(at::kInt).device(device))) {
    if (lm) lm_contexts = lm.model->shorter_contexts();
    predict_start();
    if (options.loop == "graph") record();
  }

  Options options;
  at::Device device;
  at::Tensor frame;  // [1, 1, encoder width], zeros
  fused::Weights weights;
  fused::PersistentKernel persistent;
  fused::StepKernels kernels;
  at::Tensor search;  // fused::Search in device memory, which the step kernels read
  at::Tensor totals;  // counters of the last search, on the device
  at::Tensor memory;  // working memory of the largest search so far
  at::Tensor flags;   // two barriers, saw_nan; zeros between searches
  int barrier = 0;    // which of the two the next persistent kernel uses
  at::Tensor state_after_start;
  at::Tensor lm_contexts;  // NgramLm::shorter_contexts()
  Graph graph;
  cudaGraphNode_t set = nullptr;  // the node of StepKernels::set() in `graph`

  fused::Search* search_pointer() const {
    return static_cast<fused::Search*>(search.mutable_data_ptr());
  }
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(device.index()).stream(); }
  /// Throws UserError for a batch that is too large for the form.
  void require_rows(int64_t rows) const;
  /// Returns a search with its working memory, but without its output. `frames` come from
  /// Weights::frames_in().
  fused::Search new_search(const at::Tensor& frames, const at::Tensor& lengths,
                           const DeviceBias& bias, const GreedyLm& lm);
  void lay_out(fused::Search& search, bool with_bonus);
  /// Computes the prediction network's state after the start symbol, which is the same for every
  /// row.
  void predict_start();
  /// Returns the state of rows at the start of their utterances.
  RowState start_state(int64_t rows, const GreedyLm& lm) const;
  void record();
};

void FusedLooping::Prepared::require_rows(int64_t rows) const {
  if (options.loop != "persistent" || rows <= persistent.max_rows()) return;
  throw UserError("fused_looping",
                  fmt::format("a batch of {} rows, where the shared memory of a block of this GPU "
                              "has room for {}",
                              rows, persistent.max_rows()),
                  "use a smaller batch, or \"loop\": \"graph\"");
}

fused::Search FusedLooping::Prepared::new_search(const at::Tensor& frames,
                                                 const at::Tensor& lengths, const DeviceBias& bias,
                                                 const GreedyLm& lm) {
  fused::Search s{};
  s.model = weights.view();
  s.batch = static_cast<int>(frames.size(0));
  s.frames = static_cast<int>(frames.size(1));
  s.max_symbols = static_cast<int>(options.max_symbols);
  s.row_budget = static_cast<int>(options.frames_per_step);
  s.max_window = static_cast<int>(options.window);
  s.min_window = std::min(kLeastWindow, s.max_window);
  s.key_rows = std::max(s.row_budget, s.min_window * s.batch);
  s.key_kinds = bias.has_any() || lm ? 3 : 2;
  if (bias.has_models()) {
    s.bias.trees = bias.models->view();
    s.bias.roots = data_of<int32_t>(bias.roots);
  }
  if (bias.forbidden.defined()) s.bias.forbidden = data_of<bool>(bias.forbidden);
  if (lm) {
    s.lm.model = lm.model->view();
    s.lm.contexts = {data_of<int32_t>(lm_contexts), static_cast<int32_t>(lm.model->order() - 1)};
    s.lm.alpha = static_cast<float>(lm.alpha);
  }
  s.capacity = static_cast<int>(std::max<int64_t>(1, s.frames * options.max_symbols));
  s.frames_in = frames.const_data_ptr();
  s.frame_bytes = static_cast<int>(frames.size(2) * frames.element_size());
  s.lengths = data_of<int64_t>(lengths);
  s.totals = totals.mutable_data_ptr<int>();
  if (state_after_start.defined())
    s.state_after_start = static_cast<const uint4*>(state_after_start.const_data_ptr());
  lay_out(s, bias.has_any());
  return s;
}

void FusedLooping::Prepared::lay_out(fused::Search& s, bool with_bonus) {
  using namespace fused;
  const int64_t b = s.batch, layers = s.model.layers;
  const int64_t element = s.model.precision == Precision::fp32 ? 4 : 2;
  Layout row;
  row.add<char>(layers * 2 * weights.state_width() * element);
  s.c_offset = static_cast<int>(row.add<float>(layers * s.model.units));
  s.g_offset = static_cast<int>(row.add<char>(weights.hidden_width() * element));
  s.state_bytes = static_cast<int>(row.bytes());
  Layout layout;
  const size_t state = layout.add<char>(b * s.state_bytes);
  const size_t keys = layout.add<MaxKey>(int64_t{3} * s.key_kinds * s.key_rows);
  const size_t rows = layout.add<char>(row_bytes(s.batch));
  const size_t encoded = layout.add<char>(b * s.frames * weights.hidden_width() * element);
  const int64_t tokens = with_bonus ? b * s.model.blank : 0;
  const int64_t lm_tokens = s.lm.any() ? b * s.model.blank : 0;
  const size_t added = layout.add<float>(tokens), root_added = layout.add<float>(tokens);
  const size_t to = layout.add<int32_t>(tokens), own_to = layout.add<int32_t>(tokens);
  const size_t own_arcs = layout.add<int32_t>(with_bonus ? 2 * b : 0);
  const size_t lm_bonus = layout.add<float>(lm_tokens), lm_next = layout.add<int32_t>(lm_tokens);
  if (!memory.defined() || memory.nbytes() < layout.bytes()) {
    memory.reset();  // the old memory is released first
    memory = bytes_on(device, layout.bytes());
  }
  auto* base = static_cast<char*>(memory.mutable_data_ptr());
  s.state = base + state;
  s.keys = reinterpret_cast<MaxKey*>(base + keys);
  s.rows = {reinterpret_cast<int*>(base + rows)};
  s.encoded = base + encoded;
  if (with_bonus) {
    s.bias.first = {
        reinterpret_cast<float*>(base + added),      reinterpret_cast<float*>(base + root_added),
        reinterpret_cast<int32_t*>(base + to),       reinterpret_cast<int32_t*>(base + own_to),
        reinterpret_cast<int32_t*>(base + own_arcs), false};
    s.bonus = s.bias.first.added;
  }
  if (s.lm.any()) {
    s.bonus = s.lm.bonus = reinterpret_cast<float*>(base + lm_bonus);
    s.lm.next = reinterpret_cast<int32_t*>(base + lm_next);
  }

  if (!flags.defined() || flags.size(0) < 2 + b)
    flags = at::zeros({2 + b}, at::TensorOptions(at::kInt).device(device));
  int* at = flags.mutable_data_ptr<int>();
  s.barrier = reinterpret_cast<unsigned*>(at + barrier);
  s.next_barrier = reinterpret_cast<unsigned*>(at + 1 - barrier);
  s.saw_nan = at + 2;
}

void FusedLooping::Prepared::predict_start() {
  const auto length = at::ones({1}, at::TensorOptions(at::kLong).device(device));
  const at::Tensor frames = weights.frames_in(frame);
  const fused::Search s = new_search(frames, length, {}, {});
  kernels.set(search_pointer(), s, stream());
  kernels.start(search_pointer(), stream());
  kernels.predict(search_pointer(), stream());
  state_after_start = memory.narrow(0, 0, s.state_bytes).clone();
}

RowState FusedLooping::Prepared::start_state(int64_t rows, const GreedyLm& lm) const {
  const int blank = weights.view().blank;
  const fused::CarriedRow row{0, blank, blank, -1, 0, 1, 0, 0};
  const auto bytes = static_cast<int64_t>(sizeof(row));
  const at::Tensor one = at::empty({1, bytes}, at::kByte);
  std::memcpy(one.mutable_data_ptr(), &row, sizeof(row));
  RowState state = {at::zeros({rows}, totals.options()),
                    state_after_start.unsqueeze(0).repeat({rows, 1}),
                    one.to(device).repeat({rows, 1})};
  if (lm) state.push_back(lm.model->initial_states(rows));
  return state;
}

void FusedLooping::Prepared::record() {
  graph = Graph::record([this](GraphRecorder& recorder) {
    const auto any_active = recorder.condition();
    const fused::Search* s = search_pointer();
    kernels.set(search_pointer(), {}, recorder.stream());
    set = recorder.last_node();
    kernels.start(s, recorder.stream());
    kernels.set_condition(s, any_active, recorder.stream());
    recorder.while_node(any_active, [&] {
      for (int step = 1; step <= kStepsPerIteration; ++step) {
        kernels.evaluate_joint(s, recorder.stream());
        kernels.advance(s, step == kStepsPerIteration ? any_active : 0, recorder.stream());
        kernels.predict(s, recorder.stream());  // does nothing if no row found a token
      }
    });
    kernels.finish(s, recorder.stream());
  });
}

FusedLooping::FusedLooping(Options options) : BiasedDecoder(std::move(options)) {}
FusedLooping::~FusedLooping() = default;

Description FusedLooping::describe() const {
  using Exactness = Description::Exactness;
  return {"fused_looping",
          Head::transducer,
          uses_lm(options_.lm) || is_biased() || options_.blank_penalty != 0
              ? Exactness::approximate
              : Exactness::exact,
          {"rnnt", "tdt", "multiblank"},
          "logit",
          /*streams=*/true};
}

void FusedLooping::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model = with_blank_penalty(std::move(model), options_.blank_penalty);
  if (!model->device.is_cuda())
    throw UserError("fused_looping", "needs a GPU", "use label_looping, or --device cuda");
  const c10::cuda::CUDAGuard guard(model->device);
  if (at::cuda::getCurrentDeviceProperties()->major < 8)
    throw UserError("fused_looping", "needs a GPU of compute capability 8.0 or later",
                    "use label_looping");
  if (options_.loop == "graph")
    options_.loop = available_loop("graph", model->device, "fused_looping");
  lm_ = GreedyLm(options_.lm, *model);
  prepare_bias(*model, limits);
  prepared_ = std::make_unique<Prepared>(*model, options_, lm_);
  prepared_->require_rows(limits.max_batch);  // 0 if unknown: decode() checks again
}

Hypotheses FusedLooping::decode(const EncodedBatch& batch) { return search(batch, nullptr); }

std::unique_ptr<Streams> FusedLooping::streams(const StreamLimits& limits) {
  Prepared& p = *prepared_;
  p.require_rows(limits.max_batch);
  return std::make_unique<PieceStreams>(
      greedy_in_pieces(/*takes_biases=*/true, [](const at::Tensor& frames) { return frames; },
                       p.frame,
                       [this](const EncodedBatch& batch, Loops&, RowState& state) {
                         if (state.empty())
                           state = prepared_->start_state(batch.frames.size(0), lm_);
                         return search(batch, &state);
                       }),
      limits);
}

Hypotheses FusedLooping::search(const EncodedBatch& batch, RowState* piece) {
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  host_.reset();
  Prepared& p = *prepared_;
  p.require_rows(batch.frames.size(0));
  const cudaStream_t stream = p.stream();
  const at::Tensor frames = p.weights.frames_in(batch.frames);
  bias_.select(batch);
  fused::Search s = p.new_search(frames, batch.lengths, bias_.rows(batch.frames.size(0)), lm_);
  if (piece != nullptr) {
    s.bias.carried = (*piece)[0].mutable_data_ptr<int32_t>();
    s.carried_state = static_cast<char*>((*piece)[1].mutable_data_ptr());
    s.carried_rows = static_cast<fused::CarriedRow*>((*piece)[2].mutable_data_ptr());
    if (lm_) s.lm.carried = (*piece)[3].mutable_data_ptr<int32_t>();
  }
  const Output output(s, p.device);

  if (options_.loop == "persistent") {
    p.persistent.launch(s, stream);
    p.barrier = 1 - p.barrier;  // after the launch: a call that threw has used no barrier
    return output.hypotheses();
  }
  if (options_.loop == "graph") {
    fused::Search* pointer = p.search_pointer();
    void* arguments[] = {&pointer, &s};
    p.graph.set_arguments(p.set, arguments);
    const ScopedRange launch(RangeName::decode_graph, 0);
    p.graph.launch(stream);
    return output.hypotheses();
  }
  p.kernels.set(p.search_pointer(), s, stream);
  const fused::Search* search = p.search_pointer();
  const auto offset = reinterpret_cast<char*>(s.rows.counts + fused::kActive) -
                      static_cast<char*>(p.memory.mutable_data_ptr());
  const at::Tensor any_active = p.memory.narrow(0, offset, 4).view(at::kInt);
  p.kernels.start(search, stream);
  for (int64_t step = 0; host_.any(any_active); ++step) {
    const ScopedRange one(RangeName::decode_step, step);
    p.kernels.evaluate_joint(search, stream);
    p.kernels.advance(search, 0, stream);
    p.kernels.predict(search, stream);
  }
  p.kernels.finish(search, stream);
  return output.hypotheses();
}

Counters FusedLooping::counters() const {
  const at::Tensor totals = prepared_->totals.cpu();
  const int* n = data_of<int>(totals);
  return {{"joint_calls", n[fused::kSteps]},
          {"joint_rows", n[fused::kJointRows]},
          {"pred_calls", n[fused::kPredictions]},
          {"host_reads", host_.count()}};
}

}  // namespace rtfx
