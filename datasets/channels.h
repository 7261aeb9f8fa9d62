// Takes one channel of several, or the average of all, and finds out whether they cancel each
// other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace rtfx {

/// Sums of squares that show whether the channels cancel each other in their average.
struct MixPower {
  double mixed = 0;     // sum over the averages
  double channels = 0;  // sum over the channels, divided by their number

  MixPower& operator+=(const MixPower& other) {
    mixed += other.mixed;
    channels += other.channels;
    return *this;
  }

  /// Returns whether the average has less than a fiftieth of the channels' power. The average of n
  /// equal channels has all of it, that of n independent ones 1/n.
  bool cancels() const { return mixed < 0.02 * channels; }

  /// Returns the notice for channels that cancel each other.
  static std::string notice() {
    return "its channels cancel each other in their average, so that text may be missing; choose "
           "one (--channel 1), or all (--channel separate)";
  }
};

/// Throws UserError for a `channel` beyond the `channels` of the file `path`. Channels count
/// from 1.
void require_channel(const std::filesystem::path& path, int channel, int channels);

/// Returns the notice for a recording whose channels are averaged.
std::string mixed_notice(int channels);

/// Puts one channel, or the average of all, into the first `frames` elements of `samples`. On
/// input, the channels of a frame are neighbours there. `channel` is a number from 1 on, or 0 for
/// the average. Returns the power of that average.
inline MixPower mix(float* samples, size_t frames, size_t channels, int channel) {
  MixPower power;
  for (size_t i = 0; i < frames; ++i) {
    const float* const frame = samples + i * channels;
    if (channel > 0) {
      samples[i] = frame[channel - 1];
      continue;
    }
    float sum = 0, squares = 0;
    for (size_t c = 0; c < channels; ++c) {
      sum += frame[c];
      squares += frame[c] * frame[c];
    }
    const float mean = sum / static_cast<float>(channels);
    power.mixed += double{mean} * mean;
    power.channels += double{squares} / static_cast<double>(channels);
    samples[i] = mean;
  }
  return power;
}

}  // namespace rtfx
