#include "datasets/audio.h"

#include <fmt/format.h>
#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "datasets/container.h"

namespace rtfx {
namespace {

const char* const kFormats = "give a WAV, FLAC or Ogg file";

/// Hz. Speech has no use for others, and a header of a few bytes that says 1 Hz asks for hours.
constexpr int kLowestRate = 1000, kHighestRate = 768000;

struct AudioFile {
  std::unique_ptr<SNDFILE, decltype(&sf_close)> handle{nullptr, &sf_close};
  SF_INFO info{};

  bool length_known() const { return info.frames < SF_COUNT_MAX; }
};

AudioFile open_audio(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw UserError(path.string(), "no such file", "check the path");
  }
  if (status.type() == std::filesystem::file_type::none) {
    throw UserError(path.string(), failed.message(), "check the path");
  }
  if (status.type() != std::filesystem::file_type::regular) {
    throw UserError(path.string(), "is a directory or device, not an audio file",
                    "name an audio file");
  }
  AudioFile file;
  file.handle.reset(sf_open(path.c_str(), SFM_READ, &file.info));
  if (!file.handle) {
    // libsndfile's other messages belong to the last format it tried, not to the file.
    const bool system = sf_error(nullptr) == SF_ERR_SYSTEM;
    throw UserError(path.string(),
                    system ? sf_strerror(nullptr)
                           : "not readable as audio: truncated, corrupt or of an unknown format",
                    kFormats);
  }
  const int rate = file.info.samplerate;
  if (rate < kLowestRate || rate > kHighestRate) {
    throw UserError(path.string(), fmt::format("its header says {} Hz", rate),
                    fmt::format("sample rates are {} to {} Hz", kLowestRate, kHighestRate));
  }
  return file;
}

std::string log_of(SNDFILE* handle) {
  std::array<char, 16384> log{};
  sf_command(handle, SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  return log.data();
}

/// What is wrong with the container; empty if nothing is.
std::string container_problem(const std::filesystem::path& path, const AudioFile& file,
                              size_t samples) {
  if ((file.info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG) return ogg_problem(path);
  const bool ends_early =
      file.length_known() && static_cast<sf_count_t>(samples) < file.info.frames;
  if (!ends_early && !promises_more(log_of(file.handle.get()))) return "";
  return fmt::format("truncated or corrupt after sample {}, its header promises more", samples);
}

/// All samples, the channels of each averaged.
std::vector<float> read_mono(const AudioFile& file) {
  constexpr sf_count_t kBlock = 16384;
  const auto channels = static_cast<size_t>(file.info.channels);
  std::vector<float> block(kBlock * channels);
  std::vector<float> mono;
  while (const auto frames =
             static_cast<size_t>(sf_readf_float(file.handle.get(), block.data(), kBlock))) {
    for (const float* frame = block.data(); frame != block.data() + frames * channels;
         frame += channels) {
      mono.push_back(std::accumulate(frame, frame + channels, 0.0F) / static_cast<float>(channels));
    }
  }
  return mono;
}

std::vector<float> resample(const std::vector<float>& samples, int from, int to) {
  const double ratio = static_cast<double>(to) / from;
  std::vector<float> out(
      static_cast<size_t>(std::ceil(static_cast<double>(samples.size()) * ratio)));
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  size_t written = 0;
  const soxr_error_t error =
      soxr_oneshot(from, to, 1, samples.data(), samples.size(), nullptr, out.data(), out.size(),
                   &written, nullptr, &quality, nullptr);
  RTFX_CHECK(error == nullptr, fmt::format("soxr: {}", soxr_strerror(error)));
  out.resize(written);
  return out;
}

void check_samples(const std::filesystem::path& path, const AudioFile& file,
                   const std::vector<float>& samples) {
  const std::string problem = container_problem(path, file, samples.size());
  if (!problem.empty()) {
    throw UserError(path.string(), problem, "copy or convert the file again");
  }
  if (samples.empty()) {
    throw UserError(path.string(), "empty audio: no samples", "leave the file out");
  }
  const auto bad = std::find_if_not(samples.begin(), samples.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad != samples.end()) {
    throw UserError(path.string(),
                    fmt::format("sample {} is {}", bad - samples.begin(),
                                std::isnan(*bad) ? "NaN" : "infinite"),
                    "repair the file or leave it out");
  }
}

}  // namespace

Audio read_audio(const std::filesystem::path& path, int sample_rate) {
  const AudioFile file = open_audio(path);
  Audio audio;
  audio.sample_rate = sample_rate;
  audio.samples = read_mono(file);
  check_samples(path, file, audio.samples);
  if (file.info.channels > 1) {
    audio.notices.push_back(fmt::format("mixed {} channels to mono", file.info.channels));
  }
  if (file.info.samplerate != sample_rate) {
    audio.samples = resample(audio.samples, file.info.samplerate, sample_rate);
    audio.notices.push_back(
        fmt::format("resampled from {} Hz to {} Hz", file.info.samplerate, sample_rate));
  }
  return audio;
}

double audio_seconds(const std::filesystem::path& path) {
  const AudioFile file = open_audio(path);
  if (!file.length_known()) return 0;
  return static_cast<double>(file.info.frames) / file.info.samplerate;
}

}  // namespace rtfx
