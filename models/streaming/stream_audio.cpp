#include "models/streaming/stream_audio.h"

#include <algorithm>

#include "base/error.h"

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
  // Moving is worth it once as many samples go as would move.
  if (2 * useless < static_cast<int64_t>(samples_.size())) return;
  samples_.erase(samples_.begin(), samples_.begin() + useless);
  first_ = forgotten_;
}

}  // namespace rtfx
