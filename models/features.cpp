#include "models/features.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr double kPreemphasis = 0.97;
constexpr double kLogGuard = 0x1p-24;
constexpr double kStdGuard = 1e-5;

/// Slaney's mel scale: linear below 1 kHz, logarithmic above.
double hz_of_mel(double mel) {
  constexpr double kHzPerMel = 200.0 / 3;
  constexpr double kBreak = 1000.0 / kHzPerMel;
  return mel < kBreak ? mel * kHzPerMel : 1000.0 * std::exp((mel - kBreak) * std::log(6.4) / 27);
}

double mel_of_hz(double hz) {
  return hz < 1000 ? hz * 3 / 200 : 15 + 27 * std::log(hz / 1000) / std::log(6.4);
}

/// Symmetric Hann window, as torch.hann_window(n, periodic=False).
at::Tensor hann(int64_t n) {
  return at::hann_window(n, /*periodic=*/false, at::TensorOptions(at::kFloat));
}

/// [1, T] < [B, 1]: true where a position is inside its row.
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
                                   at::Device device)
    : config_(config) {
  const auto stored = [&](const char* name) {
    const auto found = weights.find(std::string("preprocessor.featurizer.") + name);
    return found == weights.end() ? at::Tensor() : found->second.to(at::kFloat);
  };
  const at::Tensor bank = stored("fb");
  filterbank_ =
      (bank.defined() ? bank.reshape({config.mel_bins, config.n_fft / 2 + 1})
                      : slaney_filterbank(config.sample_rate, config.n_fft, config.mel_bins))
          .to(device);
  const at::Tensor window = stored("window");
  const int64_t left = (config.n_fft - config.window) / 2;
  window_ = at::constant_pad_nd(window.defined() ? window : hann(config.window),
                                {left, config.n_fft - config.window - left})
                .to(device);
}

Features FeatureExtractor::operator()(const at::Tensor& audio, const at::Tensor& lengths) const {
  RTFX_CHECK(audio.dim() == 2 && audio.scalar_type() == at::kFloat, "audio is [B, L] float32");
  // Selected, not multiplied: padding may hold NaN.
  const at::Tensor valid = inside(audio.size(1), lengths);
  const at::Tensor zero = at::zeros({}, audio.options());
  const at::Tensor clean = at::where(valid, audio, zero);
  const at::Tensor previous = at::constant_pad_nd(clean.narrow(1, 0, clean.size(1) - 1), {1, 0});
  const at::Tensor emphasised = at::where(valid, clean - kPreemphasis * previous, zero);

  const at::Tensor spectrum =
      at::stft(at::constant_pad_nd(emphasised, {config_.n_fft / 2, config_.n_fft / 2}),
               config_.n_fft, config_.hop, config_.n_fft, window_, /*normalized=*/false,
               /*onesided=*/true, /*return_complex=*/true);
  // The last frame, centred at the end of the longest row, is valid for none.
  const int64_t frames = std::max<int64_t>(1, audio.size(1) / config_.hop);
  const at::Tensor power = at::view_as_real(spectrum.narrow(2, 0, frames)).square().sum(-1);
  const at::Tensor mel = at::matmul(filterbank_, power).add(kLogGuard).log();

  const at::Tensor frame_lengths = at::floor_divide(lengths, config_.hop);
  const at::Tensor mask = inside(frames, frame_lengths).unsqueeze(1);  // [B, 1, T]
  const at::Tensor count = frame_lengths.to(at::kFloat).view({-1, 1, 1});
  const at::Tensor mean = at::where(mask, mel, zero).sum(2, true) / count;
  const at::Tensor centred = at::where(mask, mel - mean, zero);
  const at::Tensor deviation = (centred.square().sum(2, true) / (count - 1)).sqrt();
  const at::Tensor scale = at::where(deviation.isnan(), zero, deviation) + kStdGuard;
  // A single frame has no deviation and would be all zeros: no utterance, length 0.
  const at::Tensor usable =
      at::where(frame_lengths > 1, frame_lengths, at::zeros_like(frame_lengths));
  return {at::where(mask, centred / scale, zero), usable};
}

}  // namespace rtfx
