#include "datasets/media.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/samples.h"
#include "datasets/container.h"

namespace rtfx {
namespace {

const std::vector<std::string> kForSndfile = {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3",
                                              ".aif", ".aiff", ".au",  ".w64", ".caf"};
const std::vector<std::string> kForFfmpeg = {
    ".mp3", ".m4a",  ".m4b", ".aac", ".wma", ".amr", ".ac3",  ".mp4", ".m4v", ".mov",  ".mkv",
    ".mka", ".webm", ".avi", ".wmv", ".flv", ".mpg", ".mpeg", ".3gp", ".ts",  ".opus", ".caf"};

struct Output {
  int start_error = 0;  // errno if the program could not be started
  int code = -1;        // exit code; -1 = it was killed
  std::string bytes, complaints;
  std::string beyond;  // the limit that it exceeded; empty = none
};

/// Reads the output of a child until it has closed both ends or exceeds a limit, and waits for its
/// end. Keeps the last of its messages. Kills the child at a limit.
void read_within_limits(pid_t child, int sound, int messages, size_t most_bytes, Output& output) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kKept = size_t{1} << 16;  // bytes of messages
  const FfmpegLimits& limits = ffmpeg_limits();
  std::array<char, 65536> block{};
  std::array<pollfd, 2> inputs = {pollfd{sound, POLLIN, 0}, pollfd{messages, POLLIN, 0}};
  int64_t message_bytes = 0;
  auto last = Clock::now();
  const auto check = [&] {
    const std::chrono::duration<double> stall = Clock::now() - last;
    if (stall.count() > limits.stall_seconds)
      output.beyond = fmt::format("no sound for {:g} s", limits.stall_seconds);
    if (output.bytes.size() > most_bytes)
      output.beyond = fmt::format("more than {:g} s of sound", limits.audio_seconds);
    if (message_bytes > limits.message_bytes)
      output.beyond = fmt::format("more than {} MiB of messages", limits.message_bytes >> 20);
    return output.beyond.empty();
  };
  while (check() && (inputs[0].fd >= 0 || inputs[1].fd >= 0)) {
    if (poll(inputs.data(), inputs.size(), /*milliseconds=*/200) <= 0) continue;
    for (pollfd& input : inputs) {
      if (input.fd < 0 || input.revents == 0) continue;
      const ssize_t count = read(input.fd, block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        input.fd = -1;  // poll() ignores it
      } else if (&input == inputs.data()) {
        output.bytes.append(block.data(), static_cast<size_t>(count));
        last = Clock::now();
      } else {
        message_bytes += count;
        output.complaints.append(block.data(), static_cast<size_t>(count));
        if (output.complaints.size() > 2 * kKept)
          output.complaints.erase(0, output.complaints.size() - kKept);
      }
    }
  }
  // A child may close both ends and continue to run.
  int status = 0;
  pid_t ended = 0;
  while (check() && (ended = waitpid(child, &status, WNOHANG)) == 0) usleep(2000);
  if (ended == 0) {
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Runs `arguments`, whose first is searched on PATH. Ends the program where it writes more than
/// `most_bytes`, or exceeds another limit.
Output run_and_read(std::vector<std::string> arguments, size_t most_bytes) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Output output;
  std::array<int, 2> sound{-1, -1}, messages{-1, -1};
  if (pipe2(sound.data(), O_CLOEXEC) != 0 || pipe2(messages.data(), O_CLOEXEC) != 0)
    output.start_error = errno;
  Descriptor from(sound[0]), to(sound[1]), said(messages[0]), says(messages[1]);
  if (output.start_error != 0) return output;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.number, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, says.number, STDERR_FILENO);
  pid_t child = 0;
  output.start_error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (output.start_error != 0) return output;
  to.close_now();
  says.close_now();
  read_within_limits(child, from.number, said.number, most_bytes, output);
  return output;
}

std::string last_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

std::vector<float> samples_of(const std::string& bytes) {
  std::vector<float> samples(bytes.size() / sizeof(float));
  std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(float));
  return samples;
}

/// Returns ffmpeg's arguments up to the chosen track.
std::vector<std::string> ffmpeg_track(const std::filesystem::path& path, int track) {
  return {"ffmpeg",
          "-nostdin",
          "-hide_banner",
          "-loglevel",
          "error",
          "-protocol_whitelist",
          "file,pipe",
          "-i",
          "file:" + path.string(),
          "-map",
          fmt::format("0:a:{}", std::max(track, 1) - 1)};
}

/// Runs ffmpeg. Throws where it cannot be started or fails.
Output run_ffmpeg(const std::filesystem::path& path, std::vector<std::string> arguments,
                  const std::vector<std::string>& more, int sample_rate) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  const double samples = ffmpeg_limits().audio_seconds * sample_rate;
  Output output = run_and_read(std::move(arguments), sizeof(float) * static_cast<size_t>(samples));
  if (output.start_error == ENOENT) {
    throw UserError(path.string(),
                    fmt::format("{}needs ffmpeg, which is not installed",
                                has_ending(path, kForSndfile) ? "is truncated, corrupt, or " : ""),
                    "install it (apt install ffmpeg), or convert the file to WAV or FLAC");
  }
  if (output.start_error != 0) {
    throw UserError(path.string(),
                    fmt::format("ffmpeg does not start: {}", std::strerror(output.start_error)));
  }
  if (!output.beyond.empty()) {
    throw UserError(path.string(), "ffmpeg was ended: " + output.beyond,
                    "check the file, or convert it to WAV or FLAC");
  }
  if (output.code == 0) return output;
  if (output.complaints.find("matches no streams") != std::string::npos)
    throw UserError(path.string(), "has no such audio track",
                    "choose another one, or leave it out");
  const std::string complaint = last_line(output.complaints);
  throw UserError(
      path.string(),
      fmt::format("ffmpeg cannot read it: {}", complaint.empty() ? "no reason given" : complaint),
      "check the file, or convert it to WAV or FLAC");
}

double power_of(const std::vector<float>& samples) {
  double power = 0;
  for (const float x : samples) power += double{x} * x;
  return power;
}

Audio read_through_ffmpeg(const std::filesystem::path& path, int sample_rate,
                          const AudioChoice& choice) {
  // ffmpeg returns silence for a channel that the track lacks.
  const int channels = media_channels(path, choice.track);
  require_channel(path, choice.channel, channels);
  // The filter inserts silence where a track begins late or has a gap, so that times are those of
  // the file.
  std::string filter = "aresample=async=1:first_pts=0";
  std::vector<std::string> notices;
  if (choice.channel > 0) {
    filter += fmt::format(",pan=mono|c0=c{}", choice.channel - 1);
  } else if (channels > 1) {
    // "-ac 1" weighs channels by their places and leaves the LFE channel out. With "<", all weights
    // are equal and have the sum 1.
    filter += ",pan=mono|c0<c0";
    for (int c = 1; c < channels; ++c) filter += fmt::format("+c{}", c);
    notices.push_back(mixed_notice(channels));
  }
  const Output output = run_ffmpeg(
      path, ffmpeg_track(path, choice.track),
      {"-af", filter, "-ac", "1", "-ar", std::to_string(sample_rate), "-f", "f32le", "pipe:1"},
      sample_rate);
  Audio audio{samples_of(output.bytes), sample_rate, std::move(notices)};
  if (audio.samples.empty())
    throw UserError(path.string(), "empty audio: no samples", "leave the file out");
  require_valid_samples(audio.samples, path.string(), "repair the file or leave it out");
  // ffmpeg continues after damage. What it leaves out would be missing without a message.
  const std::string complaint = last_line(output.complaints);
  const std::string damage = bytes_at(path, 0, 4) == "OggS" ? ogg_problem(path, true) : "";
  if (!damage.empty()) throw UserError(path.string(), damage, "copy or convert the file again");
  if (!complaint.empty() || is_cut(path)) {
    throw UserError(path.string(),
                    fmt::format("truncated or corrupt: ffmpeg reads {:.2f} s of it{}{}",
                                audio.seconds(), complaint.empty() ? "" : " and says: ", complaint),
                    "copy or convert the file again");
  }
  // Channels that cancel each other leave nearly nothing. Codecs leave at most -50 dB.
  constexpr double kNearlyNothing = 1e-5;
  const double mixed = power_of(audio.samples);
  if (choice.channel == 0 && mixed < kNearlyNothing * static_cast<double>(audio.samples.size())) {
    const Audio first = read_through_ffmpeg(path, sample_rate, {1, choice.track});
    if (MixPower{mixed, power_of(first.samples)}.cancels())
      audio.notices.push_back(MixPower::notice());
  }
  return audio;
}

/// Returns the number of channels in the header of a WAV file in memory.
int channels_of_wav(std::string_view bytes) {
  constexpr size_t kFormat = 12, kChannels = 22;  // RIFF, its size, WAVE; "fmt ", size, coding
  if (bytes.size() < kChannels + 2 || bytes.substr(kFormat, 4) != "fmt ") return 1;
  return static_cast<unsigned char>(bytes[kChannels]) |
         static_cast<unsigned char>(bytes[kChannels + 1]) << 8;
}

/// Returns whether a file begins like a container that ffmpeg reads, whatever its name is.
bool begins_as_container(const std::filesystem::path& path) {
  const std::string head = bytes_at(path, 0, 64);
  const std::string_view start = head;
  constexpr std::array<std::string_view, 6> kStarts = {"\x1A\x45\xDF\xA3",  // Matroska, WebM
                                                       "\x30\x26\xB2\x75",  // ASF: wma, wmv
                                                       "FLV\x01",          "#!AMR", "\xFF\xF1",
                                                       "\xFF\xF9"};  // AAC in ADTS
  // libsndfile reads Vorbis and Opus in Ogg. It fails for FLAC in Ogg, as ffmpeg writes it.
  if (start.starts_with("OggS"))
    return start.find("\177FLAC") != start.npos || start.find("Speex ") != start.npos;
  return start.substr(std::min<size_t>(4, start.size())).starts_with("ftyp") ||
         (start.starts_with("RIFF") &&
          start.substr(std::min<size_t>(8, start.size())).starts_with("AVI ")) ||
         std::ranges::any_of(kStarts,
                             [&](std::string_view mark) { return start.starts_with(mark); });
}

/// Returns whether libsndfile cannot read a file that ffmpeg may open.
bool needs_ffmpeg(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  if (!has_ending(path, kForFfmpeg) && !begins_as_container(path) && !is_wav_of_other_codec(path))
    return false;
  try {
    const AudioReader reader(path);
  } catch (const UserError&) {
    return true;
  }
  return false;
}

}  // namespace

FfmpegLimits& ffmpeg_limits() {
  static FfmpegLimits limits;
  return limits;
}

const std::vector<std::string>& media_endings() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> endings = kForSndfile;
    endings.insert(endings.end(), kForFfmpeg.begin(), kForFfmpeg.end());
    std::ranges::sort(endings);
    endings.erase(std::ranges::unique(endings).begin(), endings.end());
    return endings;
  }();
  return all;
}

Audio read_media(const std::filesystem::path& path, int sample_rate, const AudioChoice& choice) {
  if (needs_ffmpeg(path)) return read_through_ffmpeg(path, sample_rate, choice);
  if (choice.track > 1) {
    throw UserError(path.string(),
                    fmt::format("has one audio track, and not track {}", choice.track),
                    "leave --track out");
  }
  return read_audio(path, sample_rate, choice.channel);
}

int media_channels(const std::filesystem::path& path, int track) {
  if (!needs_ffmpeg(path)) return audio_channels(path);
  return channels_of_wav(
      run_ffmpeg(path, ffmpeg_track(path, track), {"-t", "0.1", "-f", "wav", "pipe:1"}, kSampleRate)
          .bytes);
}

double media_seconds(const std::filesystem::path& path) {
  return needs_ffmpeg(path) ? 0 : audio_seconds(path);
}

}  // namespace rtfx
