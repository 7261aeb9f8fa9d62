#include "algorithms/fused_looping/fused_looping.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "algorithms/common/transducer.h"
#include "algorithms/cuda_graphs/graph.h"
#include "algorithms/cuda_graphs/recorded_search.h"
#include "algorithms/fused_looping/kernels.h"
#include "algorithms/fused_looping/weights.h"
#include "algorithms/registry.h"
#include "base/error.h"
#include "base/nvtx.h"

namespace rtfx {
namespace {

const OptionTable<FusedLooping::Options> kOptions{{
    option("form", &FusedLooping::Options::form, "one kernel, a CUDA graph, or driven by the host",
           {"persistent", "conditional", "host"}),
    option("window", &FusedLooping::Options::window, "most frames of a row that a step looks at", 1,
           64),
    option("frames_per_step", &FusedLooping::Options::frames_per_step,
           "frames that a step looks at over all rows, at least one per row", 1, 65536),
    option("max_symbols", &FusedLooping::Options::max_symbols, "tokens per frame", 1, 1000),
}};

const RegisterDecoder registered{
    {"fused_looping", "greedy RNN-T/TDT in fused CUDA kernels: the fastest (GPU only)",
     kOptions.info(), [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<FusedLooping>(kOptions.fill(options, where));
     }}};

/// Between two rounds of a while node there is a gap, within a round there is none. Steps behind
/// the end change nothing.
constexpr int kStepsPerRound = 2;

/// Places arrays one after the other in a block of zeros.
class Layout {
 public:
  template <class T>
  size_t add(int64_t count) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return at;
  }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  size_t bytes_ = 0;
};

}  // namespace

struct FusedLooping::Prepared {
  Prepared(const AcousticModel& model)
      : device(model.device),
        weights(model),
        kernels(weights.view().precision, weights.view().layers) {}

  at::Device device;
  fused::Weights weights;
  fused::StepKernels kernels;
  at::Tensor search;  // fused::Search in device memory, what a graph's kernels read
  Graph graph;
  at::Tensor totals;  // counters of the last search, on the device

  fused::Search* search_pointer() const {
    return static_cast<fused::Search*>(search.mutable_data_ptr());
  }
  void record();
  /// Zeroed working memory for `search`, whose sizes are set.
  at::Tensor work_memory(fused::Search& search) const;
};

void FusedLooping::Prepared::record() {
  graph = Graph::record([this](GraphRecorder& recorder) {
    const auto any_active = recorder.condition();
    const fused::Search* s = search_pointer();
    kernels.start(s, recorder.stream());
    kernels.predict(s, recorder.stream());
    kernels.set_condition(s, any_active, recorder.stream());
    recorder.while_node(any_active, [&] {
      for (int step = 1; step <= kStepsPerRound; ++step) {
        kernels.look(s, recorder.stream());
        kernels.advance(s, step == kStepsPerRound ? any_active : 0, recorder.stream());
        kernels.predict(s, recorder.stream());  // nothing to do where no row found a token
      }
    });
    kernels.finish(s, recorder.stream());
  });
}

at::Tensor FusedLooping::Prepared::work_memory(fused::Search& s) const {
  using namespace fused;
  const int64_t b = s.batch, layers = s.model.layers, state = weights.state_width();
  const auto element = static_cast<int64_t>(s.model.precision == Precision::fp32 ? 4 : 2);
  Layout layout;
  const size_t h = layout.add<char>(layers * 2 * b * state * element);
  const size_t c = layout.add<float>(layers * b * s.model.units);
  const size_t g = layout.add<char>(b * weights.hidden_width() * element);
  const size_t keys = layout.add<unsigned long long>(int64_t{3} * 2 * s.key_rows);
  const size_t barrier = layout.add<unsigned>(1);
  const size_t saw_nan = layout.add<int>(b);
  const size_t rows = layout.add<int>(row_ints(s.batch));
  const at::Tensor memory =
      at::zeros({layout.bytes()}, at::TensorOptions(at::kByte).device(device));
  auto* base = static_cast<char*>(memory.mutable_data_ptr());
  s.h = base + h;
  s.c = reinterpret_cast<float*>(base + c);
  s.g = base + g;
  s.keys = reinterpret_cast<unsigned long long*>(base + keys);
  s.barrier = reinterpret_cast<unsigned*>(base + barrier);
  s.saw_nan = reinterpret_cast<int*>(base + saw_nan);
  s.rows = rows_at(reinterpret_cast<int*>(base + rows), s.batch);
  return memory;
}

FusedLooping::FusedLooping(Options options) : options_(std::move(options)) {}
FusedLooping::~FusedLooping() = default;

Description FusedLooping::describe() const {
  return {
      "fused_looping", Head::transducer, Description::Exactness::exact, {"rnnt", "tdt"}, "logit"};
}

nlohmann::json FusedLooping::options() const { return kOptions.resolved(options_); }

void FusedLooping::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  if (!model->device.is_cuda())
    throw UserError("fused_looping", "needs a GPU", "use label_looping, or --device cuda");
  const c10::cuda::CUDAGuard guard(model->device);
  if (at::cuda::getCurrentDeviceProperties()->major < 8)
    throw UserError("fused_looping", "needs a GPU of compute capability 8.0 or later",
                    "use label_looping");
  if (options_.form == "conditional" &&
      GraphForm::available("conditional", model->device, "fused_looping") == "none")
    options_.form = "host";
  prepared_ = std::make_unique<Prepared>(*model);
  prepared_->search = at::zeros({static_cast<int64_t>(sizeof(fused::Search))},
                                at::TensorOptions(at::kByte).device(model->device));
  if (options_.form == "conditional") prepared_->record();
}

Hypotheses FusedLooping::decode(const EncodedBatch& batch) {
  host_.reset();
  Prepared& p = *prepared_;
  const int64_t rows = batch.frames.size(0), frames = batch.frames.size(1);
  at::Tensor encoded;
  {
    const ScopedRange range("decode.project");
    encoded = p.weights.project_encoder(batch.frames);
  }
  const ScopedRange range("decode.loop");
  fused::Search s{};
  s.model = p.weights.view();
  s.batch = static_cast<int>(rows);
  s.frames = static_cast<int>(frames);
  s.max_symbols = static_cast<int>(options_.max_symbols);
  s.row_budget = static_cast<int>(options_.frames_per_step);
  s.max_window = static_cast<int>(options_.window);
  s.key_rows = std::max(s.row_budget, s.batch);
  s.capacity = static_cast<int>(std::max<int64_t>(1, frames * options_.max_symbols));
  s.encoded = encoded.const_data_ptr();
  s.lengths = batch.lengths.const_data_ptr<int64_t>();
  const at::Tensor memory = p.work_memory(s);

  const auto ints = at::TensorOptions(at::kInt).device(p.device);
  Hypotheses result;
  result.lengths = at::empty({rows}, ints);
  result.tokens = at::empty({rows, s.capacity}, ints);
  result.frames = at::empty({rows, s.capacity}, ints);
  if (s.model.durations > 0) result.durations = at::empty({rows, s.capacity}, ints);
  result.scores = at::empty({rows}, ints.dtype(at::kFloat));
  result.nan = at::empty({rows}, ints.dtype(at::kBool));
  p.totals = at::empty({fused::kCounts}, ints);
  s.tokens = result.tokens.mutable_data_ptr<int>();
  s.token_frames = result.frames.mutable_data_ptr<int>();
  s.token_durations =
      result.durations.defined() ? result.durations.mutable_data_ptr<int>() : nullptr;
  s.token_counts = result.lengths.mutable_data_ptr<int>();
  s.scores = result.scores.mutable_data_ptr<float>();
  s.nan = result.nan.mutable_data_ptr<bool>();
  s.totals = p.totals.mutable_data_ptr<int>();

  const auto stream = c10::cuda::getCurrentCUDAStream(p.device.index()).stream();
  if (options_.form == "persistent") {
    fused::launch_persistent(s, stream);
    return result;
  }
  fused::StepKernels::set(p.search_pointer(), s, stream);
  if (options_.form == "conditional") {
    p.graph.launch(stream);
    return result;
  }
  const fused::Search* search = p.search_pointer();
  const auto offset = reinterpret_cast<char*>(s.rows.counts + fused::kActive) -
                      static_cast<char*>(memory.mutable_data_ptr());
  const at::Tensor any_active = memory.narrow(0, offset, 4).view(at::kInt);
  p.kernels.start(search, stream);
  p.kernels.predict(search, stream);
  while (host_.any(any_active)) {
    p.kernels.look(search, stream);
    p.kernels.advance(search, 0, stream);
    p.kernels.predict(search, stream);
  }
  p.kernels.finish(search, stream);
  return result;
}

Counters FusedLooping::counters() const {
  const at::Tensor totals = prepared_->totals.cpu();
  const int* n = totals.const_data_ptr<int>();
  return {{"joint_calls", n[fused::kSteps]},
          {"joint_rows", n[fused::kJointRows]},
          {"pred_calls", n[fused::kPredictions]},
          {"host_reads", host_.count()}};
}

}  // namespace rtfx
