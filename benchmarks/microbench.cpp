#include "benchmarks/microbench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <map>

#include "models/checkpoint/checkpoint.h"
#include "tests/support/random_weights.h"

namespace rtfx::microbench {

const std::vector<Place>& places() {
  static const std::vector<Place> all = [] {
    std::vector<Place> found = {{at::kCPU, at::kFloat, "cpu/fp32"}};
    if (torch::cuda::is_available())
      found.push_back({at::Device(at::kCUDA, 0), at::kBFloat16, "cuda/bf16"});
    return found;
  }();
  return all;
}

const Place* gpu() { return places().size() > 1 ? &places().back() : nullptr; }

void add(const std::string& name, const std::function<void(benchmark::State&)>& function,
         benchmark::TimeUnit unit) {
  benchmark::RegisterBenchmark(name.c_str(), function)
      ->Unit(unit)
      ->UseRealTime()
      ->MeasureProcessCPUTime();
}

void measure(benchmark::State& state, at::Device device, const std::function<void()>& work) {
  const auto run = [&] {
    work();
    if (device.is_cuda()) torch::cuda::synchronize();
  };
  run();
  for (auto _ : state) run();
}

void rate(benchmark::State& state, const std::string& name, double of_each) {
  state.counters[name] = benchmark::Counter(of_each * static_cast<double>(state.iterations()),
                                            benchmark::Counter::kIsRate);
}

at::Tensor random_frames(const Place& place, int64_t rows, int64_t frames) {
  at::manual_seed(1);
  return at::randn({rows, frames, kFrameWidth}).to(place.device, place.dtype);
}

EncodedBatch random_utterances(const Place& place, int64_t rows, int64_t frames) {
  const std::vector<int64_t> lengths(static_cast<size_t>(rows), frames);
  return {random_frames(place, rows, frames), at::tensor(lengths, at::kLong).to(place.device),
          lengths};
}

namespace {

ModelConfig transducer_config(int64_t vocabulary) {
  ModelConfig config;
  config.encoder.width = kFrameWidth;  // width of the frames; the encoder has no layer
  config.encoder.subsampling_channels = 1;
  config.encoder.heads = 1;
  config.has_transducer = true;
  config.prediction.width = kHidden;
  config.prediction.layers = 2;
  config.joint_width = kHidden;
  config.vocabulary = vocabulary;
  return config;
}

/// Returns the bias that makes blank the best label at `share` of random frames, after random
/// tokens.
at::Tensor missing_bias(const PredictionNetwork& prediction, const Joint& joint, double share) {
  const int64_t vocabulary = prediction.blank();
  constexpr int64_t kRows = 1000;
  const Place host{at::kCPU, at::kFloat, ""};
  const at::Tensor frames = random_frames(host, 1, kRows)[0];
  PredictionNetwork::Step last{{}, prediction.initial_state(kRows)};
  for (int step = 0; step < 4; ++step)
    last = prediction.step(at::randint(0, vocabulary, {kRows}, at::kLong), last.state);
  const at::Tensor logits =
      joint.logits(joint.project_encoder(frames), joint.project_prediction(last.output));
  const at::Tensor best = std::get<0>(logits.narrow(1, 0, vocabulary).max(1));
  return (best - logits.select(1, vocabulary)).quantile(share);
}

StateDict transducer_weights(const ModelConfig& config) {
  StateDict weights = test::random_state_dict(config, 1);
  const PredictionNetwork prediction(config.prediction, config.vocabulary, weights, at::kCPU,
                                     at::kFloat);
  const Joint joint(weights, config.joint_activation, 0, at::kCPU, at::kFloat);
  weights.at("joint.joint_net.bias")
      .select(0, config.vocabulary)
      .add_(missing_bias(prediction, joint, 0.7));
  return weights;
}

}  // namespace

std::shared_ptr<const AcousticModel> transducer(const Place& place, int64_t vocabulary) {
  static std::map<std::pair<std::string, int64_t>, std::shared_ptr<const AcousticModel>> models;
  auto& kept = models[{place.name, vocabulary}];
  if (kept) return kept;
  const ModelConfig config = transducer_config(vocabulary);
  static std::map<int64_t, StateDict> all_weights;
  StateDict& weights = all_weights[vocabulary];
  if (weights.empty()) weights = transducer_weights(config);
  auto model = std::make_shared<AcousticModel>();
  model->config = config;
  model->device = place.device;
  model->dtype = model->encoder_dtype = place.dtype;
  model->prediction.emplace(config.prediction, vocabulary, weights, place.device, place.dtype);
  model->joint.emplace(weights, config.joint_activation, 0, place.device, place.dtype);
  return kept = model;
}

}  // namespace rtfx::microbench

int main(int argc, char** argv) {
  using namespace rtfx::microbench;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const c10::InferenceMode guard;
  benchmark::AddCustomContext("threads", std::to_string(at::get_num_threads()));
  benchmark::AddCustomContext("gpu", gpu() ? "present" : "none");
  if (!gpu()) {
    fmt::print(stderr,
               "rtfx_microbench: no GPU: its benchmarks are left out, those of graphs and "
               "host reads among them\n");
  }
  for (const auto add_all : {add_top_k, add_language_model, add_transducer, add_beam_step,
                             add_wfst_frame, add_graph_nodes, add_greedy, add_word_errors,
                             add_phrase_tree, add_streams, add_alignment, add_ctc_greedy})
    add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
