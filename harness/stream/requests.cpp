#include "harness/stream/requests.h"

#include <algorithm>
#include <cmath>

namespace rtfx {

std::vector<int64_t> request_ends(const StreamSettings& options, int64_t frames,
                                  double frame_seconds, double seconds) {
  constexpr double kRounding = 1e-9;
  const double period = options.period_ms / 1000, chunk = options.chunk_ms / 1000;
  const double more = std::ceil((seconds - chunk) / period - kRounding);
  std::vector<int64_t> ends;
  for (int64_t i = 1; i <= static_cast<int64_t>(more); ++i) {
    const double end = std::floor(static_cast<double>(i) * period / frame_seconds + kRounding);
    ends.push_back(std::min(frames, static_cast<int64_t>(end)));
  }
  ends.push_back(frames);
  return ends;
}

int64_t largest_request(const StreamSettings& options, double frame_seconds) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(options.period_ms / 1000 / frame_seconds)));
}

}  // namespace rtfx
