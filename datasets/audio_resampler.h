// Changes the sample rate of audio.
#pragma once

#include <soxr.h>

#include <memory>
#include <type_traits>
#include <vector>

namespace rtfx {

/// Resamples one channel, block by block, at the quality SOXR_HQ.
class AudioResampler {
 public:
  /// The rates are in Hz.
  AudioResampler(int from, int to);

  /// Appends the resampled `samples` to `out`. Without samples, it appends the rest at the end.
  void process(const std::vector<float>& samples, std::vector<float>& out);

 private:
  double ratio_;
  std::unique_ptr<std::remove_pointer_t<soxr_t>, decltype(&soxr_delete)> soxr_{nullptr,
                                                                               &soxr_delete};
};

}  // namespace rtfx
