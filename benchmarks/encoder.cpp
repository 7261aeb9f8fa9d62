// Times the forms of the encoder on a GPU, from features to frames, as one CUDA graph. The forms
// are the operators, the fused kernels, the fused kernels with padding, and those with 8-bit
// products.
//   rtfx_bench_encoder [Google Benchmark's own options]
// The encoder has the shape of Parakeet 0.6B and random weights.
// The counter `rtfx` is seconds of audio per second. Latency benchmarks have one utterance.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <map>
#include <string>

#include "models/acoustic_model.h"
#include "models/checkpoint/checkpoint.h"
#include "speech/pipeline/recorded_encoder.h"
#include "tests/support/random_weights.h"

namespace {

using namespace rtfx;

struct Form {
  const char* name;
  EncoderOptions options;
  bool packed = true;  // if the host knows no lengths, rows are padded
};
constexpr Form kForms[] = {{"reference", {EncoderForm::reference}},
                           {"fused_padded", {EncoderForm::fused}, false},
                           {"fused", {EncoderForm::fused}},
                           {"fused_fp8", {EncoderForm::fused, true}}};

constexpr const char* kModel = "parakeet-0.6b";  // CTC and RNN-T; the TDT models have other sizes
constexpr int64_t kMelBins = 80;

std::shared_ptr<const AcousticModel> make_model(const EncoderOptions& options) {
  const at::Device gpu(at::kCUDA, 0);
  auto model = std::make_shared<AcousticModel>();
  model->config.features.mel_bins = kMelBins;
  EncoderConfig& encoder = model->config.encoder;
  encoder.layers = 24;
  encoder.width = 1024;
  encoder.heads = 8;
  encoder.conv_kernel = 9;
  model->device = gpu;
  model->dtype = at::kBFloat16;
  ModelConfig headless = model->config;
  headless.has_ctc = headless.has_transducer = false;
  model->encoder.emplace(encoder, kMelBins, test::random_state_dict(headless, /*seed=*/1), gpu,
                         at::kBFloat16, options);
  return model;
}

/// Encodes `utterances` of at most `seconds`. If `ragged`, the shortest is half as long as the
/// longest; otherwise all are equally long.
void encode(benchmark::State& state, const Form& form, int64_t utterances, double seconds,
            bool ragged) {
  const c10::InferenceMode guard;
  static std::map<std::string, std::shared_ptr<const AcousticModel>> models;  // seconds each
  auto& model = models[form.name];
  if (model == nullptr) model = make_model(form.options);
  RecordedEncoder encoder(model, /*graphs=*/true);
  const auto frames = static_cast<int64_t>(100 * seconds);
  Features features{at::randn({utterances, kMelBins, frames}, at::TensorOptions(model->device)),
                    {}};
  int64_t sum = 0;
  for (int64_t b = 0; b < utterances; ++b) {
    features.host_lengths.push_back(ragged ? frames - frames * b / (2 * utterances) : frames);
    sum += features.host_lengths.back();
  }
  features.lengths = at::tensor(features.host_lengths, at::kLong).to(model->device);
  if (!form.packed) features.host_lengths.clear();
  for (int warm = 0; warm < 3; ++warm) encoder(features);
  torch::cuda::synchronize();
  for (auto _ : state) {
    encoder(features);
    torch::cuda::synchronize();
  }
  state.counters["rtfx"] =
      benchmark::Counter(static_cast<double>(sum) / 100 * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (!torch::cuda::is_available()) {
    fmt::print(stderr, "rtfx_bench_encoder: no GPU, nothing to measure\n");
    return 1;
  }
  for (const Form& form : kForms) {
    const auto add = [&](int64_t utterances, double seconds, bool ragged) {
      const std::string name = fmt::format("{}/{}/{}x{}s{}", kModel, form.name, utterances, seconds,
                                           ragged ? "_ragged" : "");
      benchmark::RegisterBenchmark(name.c_str(), encode, form, utterances, seconds, ragged)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    };
    for (const double seconds : {1.0, 5.0, 15.0, 35.0}) add(1, seconds, false);
    for (const int64_t utterances : {32, 64, 128}) add(utterances, 6.5, false);
    for (const double seconds : {6.5, 20.0, 35.0}) add(64, seconds, true);
  }
  benchmark::RunSpecifiedBenchmarks();
}
