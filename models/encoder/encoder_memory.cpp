#include "models/encoder/encoder_memory.h"

#include <algorithm>

namespace rtfx {

int64_t encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                      int64_t mel_frames, int64_t element_bytes) {
  // Input and output of the activation behind the first convolution, which halves both axes.
  const int64_t channels =
      config.front_end == EncoderConfig::FrontEnd::convolution && config.subsampling_factor > 1
          ? config.subsampling_channels
          : 0;
  const int64_t convolution = 2 * channels * config.halved(mel_frames) * config.halved(mel_bins);

  // With all frames in reach: products with 2 T' - 1 positions, and from them the scores of T'
  // keys.
  const int64_t frames = config.subsampled(mel_frames);
  const bool limited = config.left_context >= 0 && config.right_context >= 0;
  const int64_t attention = limited ? 0 : config.heads * frames * 3 * frames;
  return rows * element_bytes * std::max(convolution, attention);
}

}  // namespace rtfx
