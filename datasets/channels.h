// One channel of several, or the average of all, and whether they cancel each other in it.
#pragma once

#include <cstddef>
#include <string>

namespace rtfx {

/// Sums of squares, by which an average of channels shows that they cancel each other.
struct MixPower {
  double mixed = 0;     // of the averages
  double channels = 0;  // of the channels, divided by their number

  MixPower& operator+=(const MixPower& other) {
    mixed += other.mixed;
    channels += other.channels;
    return *this;
  }

  /// Whether the average has less than a fiftieth of the channels' power. Equal channels have all
  /// of it, and independent ones their number's part.
  bool cancels() const { return mixed < 0.02 * channels; }

  /// The notice for that.
  static std::string notice() {
    return "its channels cancel each other in their average, so that text may be missing; choose "
           "one (--channel 1), or all (--channel separate)";
  }
};

/// Puts one channel, or the average of all, into the first `frames` elements of `samples`, in which
/// the channels of a frame are neighbours. `channel` is a number from 1 on, or 0 for the average.
/// Returns the power of that average.
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
