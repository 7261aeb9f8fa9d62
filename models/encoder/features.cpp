#include "models/encoder/features.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "models/encoder/epsilons.h"
#include "models/encoder/fused/fused_features.h"
#include "models/encoder/transform_plans.h"

namespace rtfx {
namespace {

/// Converts a value of Slaney's mel scale to Hz. The scale is linear below 1 kHz and logarithmic
/// above.
double hz_of_mel(double mel) {
  constexpr double kHzPerMel = 200.0 / 3;
  constexpr double kBreak = 1000.0 / kHzPerMel;
  return mel < kBreak ? mel * kHzPerMel : 1000.0 * std::exp((mel - kBreak) * std::log(6.4) / 27);
}

double mel_of_hz(double hz) {
  return hz < 1000 ? hz * 3 / 200 : 15 + 27 * std::log(hz / 1000) / std::log(6.4);
}

/// Makes a symmetric window, as torch.hann_window(n, periodic=False) and its siblings do.
at::Tensor window_of(const std::string& shape, int64_t n) {
  const at::TensorOptions options(at::kFloat);
  if (shape == "hann") return at::hann_window(n, false, options);
  if (shape == "hamming") return at::hamming_window(n, false, options);
  if (shape == "blackman") return at::blackman_window(n, false, options);
  if (shape == "bartlett") return at::bartlett_window(n, false, options);
  return at::ones({n}, options);
}

at::Tensor column(const std::vector<double>& numbers, at::Device device) {
  if (numbers.empty()) return {};
  return at::tensor(numbers, at::kFloat).unsqueeze(1).to(device);
}

/// Computes [1, T] < [B, 1], which is true where a position is inside its row.
at::Tensor inside(int64_t extent, const at::Tensor& lengths) {
  return at::arange(extent, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

}  // namespace

at::Tensor slaney_filterbank(int64_t sample_rate, int64_t n_fft, int64_t mel_bins) {
  const int64_t bins = n_fft / 2 + 1;
  const double top = mel_of_hz(sample_rate / 2.0);
  std::vector<double> points(static_cast<size_t>(mel_bins + 2));
  for (size_t i = 0; i < points.size(); ++i)
    points[i] = hz_of_mel(top * static_cast<double>(i) / (mel_bins + 1));
  at::Tensor bank = at::zeros({mel_bins, bins}, at::kFloat);
  auto rows = bank.accessor<float, 2>();
  for (int64_t m = 0; m < mel_bins; ++m) {
    const double low = points[m], mid = points[m + 1], high = points[m + 2];
    for (int64_t k = 0; k < bins; ++k) {
      const double hz = static_cast<double>(k) * sample_rate / n_fft;
      const double triangle = std::min((hz - low) / (mid - low), (high - hz) / (high - mid));
      rows[m][k] = static_cast<float>(std::max(0.0, triangle) * 2 / (high - low));
    }
  }
  return bank;
}

FeatureExtractor::FeatureExtractor(const FeatureConfig& config, const StateDict& weights,
                                   at::Device device, bool fused)
    : config_(config),
      fixed_mean_(column(config.fixed_mean, device)),
      fixed_scale_(column(config.fixed_deviation, device)),
      zero_(at::zeros({}, at::TensorOptions(at::kFloat).device(device))) {
  const WeightReader stored(weights, "preprocessor.featurizer.", at::kCPU, at::kFloat);
  const at::Tensor bank = stored.optional("fb");
  filterbank_ =
      (bank.defined() ? bank.reshape({config.mel_bins, config.n_fft / 2 + 1})
                      : slaney_filterbank(config.sample_rate, config.n_fft, config.mel_bins))
          .to(device);
  const at::Tensor window = stored.optional("window");
  const int64_t left = (config.n_fft - config.window) / 2;
  window_ =
      at::constant_pad_nd(window.defined() ? window : window_of(config.window_shape, config.window),
                          {left, config.n_fft - config.window - left})
          .to(device);
  if (fused && device.is_cuda() && FusedFeatures::supports(config))
    fused_ = std::make_shared<FusedFeatures>(config, window_, filterbank_);
}

Features FeatureExtractor::operator()(const at::Tensor& audio, const at::Tensor& lengths) const {
  RTFX_CHECK(audio.dim() == 2 && audio.scalar_type() == at::kFloat, "audio is [B, L] float32");
  if (fused_) return (*fused_)(audio, lengths);
  // Samples are selected and not multiplied by the mask, because padding may hold NaN.
  const at::Tensor valid = inside(audio.size(1), lengths);
  const at::Tensor clean = at::where(valid, audio, zero_);
  const at::Tensor previous = at::constant_pad_nd(clean.narrow(1, 0, clean.size(1) - 1), {1, 0});
  const at::Tensor emphasised = at::where(valid, clean - config_.preemphasis * previous, zero_);

  // The last frame, centred at the end of the longest row, is not valid for any row.
  const int64_t frames = std::max<int64_t>(1, audio.size(1) / config_.hop);
  const at::Tensor values_of_all =
      mel_frames(at::constant_pad_nd(emphasised, {config_.n_fft / 2, config_.n_fft / 2}), frames);

  at::Tensor frame_lengths = at::floor_divide(lengths, config_.hop);
  const at::Tensor mask = inside(frames, frame_lengths).unsqueeze(1);
  const at::Tensor values = normalised(values_of_all, mask, frame_lengths);
  if (config_.normalization == FeatureConfig::Normalization::per_feature) {
    // A single frame has no deviation and is all zeros now. It counts as no utterance, with length
    // 0.
    frame_lengths = at::where(frame_lengths > 1, frame_lengths, at::zeros_like(frame_lengths));
  }
  return {at::where(mask, values, zero_), frame_lengths};
}

at::Tensor FeatureExtractor::part(const at::Tensor& samples, const at::Tensor& valid) const {
  const int64_t length = valid.size(1);
  const at::Tensor emphasised = at::where(
      valid, samples.narrow(1, 1, length) - config_.preemphasis * samples.narrow(1, 0, length),
      zero_);
  return normalised(mel_frames(emphasised, (length - config_.n_fft) / config_.hop + 1), {}, {});
}

at::Tensor FeatureExtractor::mel_frames(const at::Tensor& emphasised, int64_t frames) const {
  const auto transformed = [&] {
    return at::stft(emphasised, config_.n_fft, config_.hop, config_.n_fft, window_,
                    /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true);
  };
  if (emphasised.is_cuda()) {
    static TransformPlans plans;
    const int64_t of_row = (emphasised.size(1) - config_.n_fft) / config_.hop + 1;
    plans.make(emphasised.device(), config_.n_fft, emphasised.size(0) * of_row, transformed);
  }
  const at::Tensor spectrum = transformed();
  at::Tensor power = at::view_as_real(spectrum.narrow(2, 0, frames)).square().sum(-1);
  if (config_.magnitude_power != 2) power = power.sqrt().pow(config_.magnitude_power);
  return mel(power);
}

at::Tensor FeatureExtractor::mel(const at::Tensor& power) const {
  const at::Tensor mel = at::matmul(filterbank_, power);
  if (!config_.log) return mel;
  return (config_.log_clamp ? mel.clamp_min(config_.log_guard) : mel.add(config_.log_guard)).log();
}

at::Tensor FeatureExtractor::normalised(const at::Tensor& values, const at::Tensor& mask,
                                        const at::Tensor& frames) const {
  using Normalization = FeatureConfig::Normalization;
  if (config_.normalization == Normalization::none) return values;
  if (config_.normalization == Normalization::fixed) return (values - fixed_mean_) / fixed_scale_;
  const bool all = config_.normalization == Normalization::all_features;
  const std::vector<int64_t> axes = all ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2};
  at::Tensor count = frames.to(at::kFloat).view({-1, 1, 1});
  if (all) count = count * values.size(1);
  const at::Tensor mean = at::where(mask, values, zero_).sum(axes, true) / count;
  const at::Tensor centred = at::where(mask, values - mean, zero_);
  const at::Tensor deviation = (centred.square().sum(axes, true) / (count - 1)).sqrt();
  return centred / (at::where(deviation.isnan(), zero_, deviation) + kDeviationGuard);
}

}  // namespace rtfx
