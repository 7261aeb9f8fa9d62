// Audio files as the models want them: mono, 16 kHz, float. Through libsndfile and soxr.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rtfx {

struct Audio {
  std::vector<float> samples;        // mono; integer formats scaled to [-1, 1) (int16: by 1/32768)
  int sample_rate = 0;               // Hz
  std::vector<std::string> notices;  // what had to be changed: "mixed 2 channels to mono", ...

  double seconds() const { return static_cast<double>(samples.size()) / sample_rate; }
};

/// The whole file, its channels averaged and resampled to `sample_rate`.
/// Throws UserError naming the file: missing, a directory, no audio, truncated or corrupt, without
/// samples ("empty audio"), with a NaN or infinite sample (its index in the file), of a sample rate
/// below 1 or above 768 kHz.
Audio read_audio(const std::filesystem::path& path, int sample_rate = 16000);

/// Length by the header alone, in seconds; 0 where the header does not tell (streamed FLAC).
/// Throws UserError as read_audio does for a file without a readable header.
double audio_seconds(const std::filesystem::path& path);

}  // namespace rtfx
