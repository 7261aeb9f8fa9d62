// Times the forms of the encoder on a GPU, from features to frames, as one CUDA graph. The forms
// are the operators, the fused kernels, the fused kernels with padding, and those with 8-bit
// products.
//   rtfx_bench_encoder --architecture=parakeet-0.6b [Google Benchmark's own options]
// The counter `rtfx` is seconds of audio per second. Latency benchmarks have one utterance.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <map>
#include <string>

#include "models/acoustic_model.h"
#include "models/architectures.h"
#include "models/checkpoint/checkpoint.h"
#include "speech/pipeline/recorded_encoder.h"

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

std::shared_ptr<const AcousticModel> make_model(const Architecture& architecture,
                                                const EncoderOptions& options) {
  const at::Device gpu(at::kCUDA, 0);
  auto model = std::make_shared<AcousticModel>();
  model->config.features.mel_bins = architecture.mel_bins;
  model->config.encoder = architecture.encoder;
  model->device = gpu;
  model->dtype = at::kBFloat16;
  model->encoder.emplace(architecture.encoder, architecture.mel_bins, random_encoder(model->config),
                         gpu, at::kBFloat16, options);
  return model;
}

/// Encodes `utterances` of at most `seconds`. If `ragged`, the shortest is half as long as the
/// longest; otherwise all are equally long.
void encode(benchmark::State& state, const Architecture& architecture, const Form& form,
            int64_t utterances, double seconds, bool ragged) {
  const c10::InferenceMode guard;
  static std::map<std::string, std::shared_ptr<const AcousticModel>> models;  // seconds each
  auto& model = models[form.name];
  if (model == nullptr) model = make_model(architecture, form.options);
  RecordedEncoder encoder(model, /*graphs=*/true);
  const auto frames = static_cast<int64_t>(100 * seconds);
  Features features{
      at::randn({utterances, architecture.mel_bins, frames}, at::TensorOptions(model->device)), {}};
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
  std::string architecture = "parakeet-0.6b";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    constexpr std::string_view kArchitecture = "--architecture=";
    if (argument.starts_with(kArchitecture)) {
      architecture = argument.substr(kArchitecture.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  benchmark::Initialize(&argc, argv);
  if (!torch::cuda::is_available()) {
    fmt::print(stderr, "rtfx_bench_encoder: no GPU, nothing to measure\n");
    return 1;
  }
  const Architecture& of = find_architecture(architecture, "--architecture");
  for (const Form& form : kForms) {
    const auto add = [&](int64_t utterances, double seconds, bool ragged) {
      const std::string name = fmt::format("{}/{}/{}x{}s{}", architecture, form.name, utterances,
                                           seconds, ragged ? "_ragged" : "");
      benchmark::RegisterBenchmark(name.c_str(), encode, of, form, utterances, seconds, ragged)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    };
    for (const double seconds : {1.0, 5.0, 15.0, 35.0}) add(1, seconds, false);
    for (const int64_t utterances : {32, 64, 128}) add(utterances, 6.5, false);
    for (const double seconds : {6.5, 20.0, 35.0}) add(64, seconds, true);
  }
  benchmark::RunSpecifiedBenchmarks();
}
