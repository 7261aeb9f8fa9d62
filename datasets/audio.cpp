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
#include <regex>

#include "base/error.h"

namespace rtfx {
namespace {

const char* const kFormats = "give a WAV, FLAC or Ogg file";

struct AudioFile {
  std::unique_ptr<SNDFILE, decltype(&sf_close)> handle{nullptr, &sf_close};
  SF_INFO info{};

  bool length_known() const { return info.frames < SF_COUNT_MAX; }
};

AudioFile open_audio(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw UserError(path.string(), "no such file", "check the path");
  }
  if (!std::filesystem::is_regular_file(path)) {
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
  return file;
}

/// libsndfile shortens a WAV file whose data chunk claims more bytes than follow, and says so in
/// its log alone. Writers into a pipe claim 0xffffffff (ffmpeg) or 0x7ffff000 (sox): they do not
/// know.
bool is_truncated_wav(SNDFILE* handle) {
  std::array<char, 16384> log{};
  sf_command(handle, SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  static const std::regex kShortened(R"(\bdata\s*: (\d+) \(should be)");
  std::cmatch match;
  return std::regex_search(log.data(), match, kShortened) && std::stoull(match[1]) < 0x7ffff000U;
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
  const auto read = static_cast<sf_count_t>(samples.size());
  if (is_truncated_wav(file.handle.get()) || (file.length_known() && read < file.info.frames)) {
    throw UserError(path.string(),
                    fmt::format("truncated or corrupt after sample {}, its header promises more",
                                samples.size()),
                    "copy or convert the file again");
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
