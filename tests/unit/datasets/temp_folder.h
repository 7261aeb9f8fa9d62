// A folder of its own for each test, and audio files written into it.
#pragma once

#include <gtest/gtest.h>
#include <sndfile.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/own_path.h"
#include "tests/support/user_error.h"

namespace rtfx::test {

class TempFolder : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  /// Writes an audio file. `samples` are interleaved, and `format` is a constant of libsndfile.
  std::filesystem::path write_audio(const std::string& name, const std::vector<float>& samples,
                                    int format = SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                    int sample_rate = 16000, int channels = 1) const {
    std::filesystem::create_directories(path(name).parent_path());
    SF_INFO info{};
    info.format = format;
    info.samplerate = sample_rate;
    info.channels = channels;
    SNDFILE* file = sf_open(path(name).c_str(), SFM_WRITE, &info);
    EXPECT_NE(file, nullptr) << sf_strerror(nullptr);
    const auto frames = static_cast<sf_count_t>(samples.size()) / channels;
    EXPECT_EQ(sf_writef_float(file, samples.data(), frames), frames);
    sf_close(file);
    return path(name);
  }

 private:
  OwnFolder folder_;
};

inline std::vector<float> sine(double hertz, double sample_rate, size_t samples) {
  std::vector<float> wave(samples);
  for (size_t i = 0; i < samples; ++i) {
    const double phase = 2 * std::numbers::pi * hertz * static_cast<double>(i) / sample_rate;
    wave[i] = static_cast<float>(0.5 * std::sin(phase));
  }
  return wave;
}

}  // namespace rtfx::test
