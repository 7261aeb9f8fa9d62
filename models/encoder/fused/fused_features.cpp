#include "models/encoder/fused/fused_features.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "models/checkpoint/tensor_data.h"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/transform_plans.h"

namespace rtfx {
namespace {

at::Tensor ranges_of(const at::Tensor& filterbank) {
  const at::Tensor filters = filterbank.to(at::kCPU);
  const at::Tensor ranges = at::zeros({filters.size(0), 2}, at::kInt);
  const auto values = filters.accessor<float, 2>();
  auto in = ranges.accessor<int32_t, 2>();
  for (int64_t m = 0; m < filters.size(0); ++m) {
    for (int64_t k = 0; k < filters.size(1); ++k) {
      if (values[m][k] == 0) continue;
      if (in[m][1] == 0) in[m][0] = static_cast<int32_t>(k);
      in[m][1] = static_cast<int32_t>(k + 1);
    }
  }
  return ranges.to(filterbank.device());
}

}  // namespace

bool FusedFeatures::supports(const FeatureConfig& config) {
  // This counts the fields, so that it does not compile with a further one. The kernels honour
  // those that are not tested below.
  [[maybe_unused]] const auto& [sample_rate, mel_bins, n_fft, window, hop, window_shape,
                                preemphasis, magnitude_power, log, log_guard, log_clamp,
                                normalization, fixed_mean, fixed_deviation] = config;
  return config.log && config.magnitude_power == 2 &&
         config.normalization == FeatureConfig::Normalization::per_feature;
}

FusedFeatures::FusedFeatures(const FeatureConfig& config, const at::Tensor& window,
                             const at::Tensor& filterbank)
    : config_(config),
      window_(window.contiguous()),
      filterbank_(filterbank.contiguous()),
      ranges_(ranges_of(filterbank)) {}

Features FusedFeatures::operator()(const at::Tensor& audio, const at::Tensor& lengths) const {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(audio.device().index()).stream();
  const int64_t rows = audio.size(0), samples = audio.size(1);
  const int64_t count = std::max<int64_t>(1, samples / config_.hop);
  const auto narrowed = [](int64_t extent) { return static_cast<int32_t>(extent); };
  const auto* const lengths_data = data_of<int64_t>(lengths);
  const at::Tensor dense = audio.contiguous();
  at::Tensor frames = at::empty({rows, count, config_.n_fft}, audio.options());
  const auto transformed = [&] {
    return at::_fft_r2c(frames, {2}, /*normalization=*/0, /*onesided=*/true);
  };
  static TransformPlans plans;
  // The transform's input does not matter here.
  plans.make(frames.device(), config_.n_fft, rows * count, transformed);
  cut_windows(
      {data_of<float>(dense), lengths_data, data_of<float>(window_),
       frames.mutable_data_ptr<float>(), samples, narrowed(rows), narrowed(count),
       narrowed(config_.n_fft), narrowed(config_.hop), static_cast<float>(config_.preemphasis)},
      stream);
  const at::Tensor spectra = transformed().contiguous();
  Features features{at::empty({rows, config_.mel_bins, count}, audio.options()),
                    at::empty_like(lengths)};
  mel_values({static_cast<const float2*>(spectra.const_data_ptr()), lengths_data,
              data_of<float>(filterbank_), data_of<int32_t>(ranges_),
              features.values.mutable_data_ptr<float>(), narrowed(rows), narrowed(count),
              narrowed(filterbank_.size(1)), narrowed(config_.mel_bins), narrowed(config_.hop),
              static_cast<float>(config_.log_guard), config_.log_clamp},
             stream);
  normalise_features({features.values.mutable_data_ptr<float>(), lengths_data,
                      features.lengths.mutable_data_ptr<int64_t>(), narrowed(rows),
                      narrowed(config_.mel_bins), narrowed(count), narrowed(config_.hop)},
                     stream);
  return features;
}

}  // namespace rtfx
