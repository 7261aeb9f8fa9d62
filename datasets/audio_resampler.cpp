#include "datasets/audio_resampler.h"

#include <fmt/format.h>

#include <cstddef>

#include "base/error.h"

namespace rtfx {

namespace {

void require_success(soxr_error_t error) {
  RTFX_CHECK(error == nullptr, fmt::format("soxr: {}", soxr_strerror(error)));
}

}  // namespace

AudioResampler::AudioResampler(int from, int to) : ratio_(static_cast<double>(to) / from) {
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  soxr_error_t error = nullptr;
  soxr_.reset(soxr_create(from, to, 1, &error, nullptr, &quality, nullptr));
  require_success(error);
}

void AudioResampler::process(const std::vector<float>& samples, std::vector<float>& out) {
  const bool end = samples.empty();
  const float* in = end ? nullptr : samples.data();
  size_t left = samples.size();
  size_t done = 0;
  do {
    std::vector<float> block(static_cast<size_t>(static_cast<double>(left) * ratio_) + 4096);
    size_t read = 0;
    require_success(soxr_process(soxr_.get(), in, left, &read, block.data(), block.size(), &done));
    out.insert(out.end(), block.begin(), block.begin() + static_cast<ptrdiff_t>(done));
    if (!end) in += read;
    left -= read;
  } while (left > 0 || (end && done > 0));
}

}  // namespace rtfx
