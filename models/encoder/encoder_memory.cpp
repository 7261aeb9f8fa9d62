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

int64_t fused_encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                            int64_t mel_frames) {
  const bool strided = config.front_end == EncoderConfig::FrontEnd::convolution &&
                       config.depthwise_subsampling && config.subsampling_factor > 2;
  const int64_t convolution = strided ? 2 * config.subsampling_channels *
                                            config.halved(config.halved(mel_frames)) *
                                            config.halved(config.halved(mel_bins))
                                      : 0;
  // Frames, their norm, the wide result of a product, and what attention or convolution gives.
  const int64_t layer = config.subsampled(mel_frames) * config.width *
                        (3 + std::max<int64_t>(3, config.feed_forward_expansion));
  return rows * 2 * std::max(convolution, layer);
}

}  // namespace rtfx
