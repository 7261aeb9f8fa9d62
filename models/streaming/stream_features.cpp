#include "models/streaming/stream_features.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "models/parallel.h"

namespace rtfx {

void StreamAudio::push(std::span<const float> samples) {
  RTFX_CHECK(!finished_, "no samples after the end");
  samples_.insert(samples_.end(), samples.begin(), samples.end());
}

void StreamAudio::copy(int64_t first, std::span<float> into) const {
  const int64_t end = first + static_cast<int64_t>(into.size());
  const int64_t begin = std::clamp<int64_t>(first, 0, end);
  const int64_t known = std::clamp(received(), begin, end);
  RTFX_CHECK(begin == known || begin >= first_, "samples that were forgotten");
  auto out = std::fill_n(into.begin(), begin - first, 0.0F);
  out = std::copy_n(samples_.begin() + (begin == known ? 0 : begin - first_), known - begin, out);
  std::fill(out, into.end(), 0.0F);
}

void StreamAudio::forget(int64_t first) {
  forgotten_ = std::clamp(first, forgotten_, received());
  const int64_t useless = forgotten_ - first_;
  // Moving samples only pays if at least as many are dropped as are moved.
  if (2 * useless < static_cast<int64_t>(samples_.size())) return;
  samples_.erase(samples_.begin(), samples_.begin() + useless);
  first_ = forgotten_;
}

namespace {

/// Returns where [1, T] is in [first, end), which are [B, 1] each.
at::Tensor between(const at::Tensor& first, const at::Tensor& end, int64_t extent) {
  const at::Tensor index = at::arange(extent, first.options()).unsqueeze(0);
  return (index >= first.unsqueeze(1)).logical_and(index < end.unsqueeze(1));
}

}  // namespace

StreamFeatures::StreamFeatures(std::shared_ptr<const AcousticModel> model, int64_t frames)
    : model_(std::move(model)), frames_(frames) {
  using Normalization = FeatureConfig::Normalization;
  const Normalization kind = model_->config.features.normalization;
  if (kind != Normalization::none && kind != Normalization::fixed)
    throw UserError("streaming features",
                    "the model normalises its features over the whole utterance",
                    "use a model with preprocessor.normalize: NA, or buffered streams");
}

int64_t StreamFeatures::first_sample(int64_t first) const {
  const FeatureConfig& f = model_->config.features;
  return first * f.hop - f.n_fft / 2 - 1;
}

int64_t StreamFeatures::samples_for(int64_t end) const {
  const FeatureConfig& f = model_->config.features;
  // The window is shorter than the transform. Beyond the window, the samples count as zero.
  const int64_t reach = (f.n_fft - f.window) / 2 + f.window - f.n_fft / 2;
  // A frame only counts when its hop is full.
  return std::max(end * f.hop, (end - 1) * f.hop + reach);
}

at::Tensor StreamFeatures::operator()(std::span<const Block> blocks, int64_t rows) const {
  RTFX_CHECK(static_cast<int64_t>(blocks.size()) <= rows, "more blocks than rows");
  const FeatureConfig& f = model_->config.features;
  const bool pinned = model_->device.is_cuda();
  const int64_t length = f.n_fft + (frames_ - 1) * f.hop;
  const auto whole = at::TensorOptions(at::kLong).pinned_memory(pinned);
  at::Tensor samples =
      at::empty({rows, 1 + length}, at::TensorOptions(at::kFloat).pinned_memory(pinned));
  const auto count = std::ssize(blocks);
  samples.narrow(0, count, rows - count).zero_();
  // The first sample and frame of each row, and those after its last.
  at::Tensor bounds = at::zeros({4, rows}, whole);
  auto bound = bounds.accessor<int64_t, 2>();
  float* const into = samples.data_ptr<float>();
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Block& block = blocks[static_cast<size_t>(row)];
      const int64_t first = first_sample(block.first);
      block.audio->copy(first, {into + row * (1 + length), static_cast<size_t>(1 + length)});
      bound[0][row] = std::max<int64_t>(0, -(first + 1));
      bound[1][row] = block.audio->received() - (first + 1);
      bound[2][row] = std::max<int64_t>(0, -block.first);
      bound[3][row] = block.end - block.first;
    }
  };
  parallel_ranges(count, fill, 1 + StreamAudio::kSamplesOfAThread / length);
  samples = samples.to(model_->device, /*non_blocking=*/true);
  bounds = bounds.to(model_->device, /*non_blocking=*/true);
  const at::Tensor values = model_->features->part(samples, between(bounds[0], bounds[1], length));
  return at::where(between(bounds[2], bounds[3], frames_).unsqueeze(1), values,
                   at::zeros({}, values.options()));
}

}  // namespace rtfx
