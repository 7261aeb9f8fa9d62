#include "datasets/media.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "datasets/container.h"

namespace rtfx {
namespace {

const std::vector<std::string> kForSndfile = {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3",
                                              ".aif", ".aiff", ".au",  ".w64", ".caf"};
const std::vector<std::string> kForFfmpeg = {
    ".mp3", ".m4a",  ".m4b", ".aac", ".wma", ".amr", ".ac3",  ".mp4", ".m4v", ".mov",  ".mkv",
    ".mka", ".webm", ".avi", ".wmv", ".flv", ".mpg", ".mpeg", ".3gp", ".ts",  ".opus", ".caf"};

bool is_for_ffmpeg(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kForFfmpeg, ending) != kForFfmpeg.end();
}

/// A descriptor that is closed at the end.
struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() { close_now(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void close_now() {
    if (number >= 0) close(number);
    number = -1;
  }
  int number;
};

std::string read_to_end(int descriptor) {
  std::string bytes;
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t count = read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return bytes;
    bytes.append(block.data(), static_cast<size_t>(count));
  }
}

struct Output {
  int start_error = 0;  // errno where the program could not be started
  int code = -1;        // of its exit; -1: it was killed
  std::string bytes, complaints;
};

/// Runs `arguments`, whose first is looked for on PATH.
Output run_and_read(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Output output;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    output.start_error = errno;
    return output;
  }
  Descriptor from(ends[0]), to(ends[1]);
  // Its messages go into memory, so that ffmpeg never waits for us to read them.
  const Descriptor complaints(memfd_create("ffmpeg", MFD_CLOEXEC));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.number, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, complaints.number, STDERR_FILENO);
  pid_t child = 0;
  output.start_error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (output.start_error != 0) return output;
  to.close_now();
  output.bytes = read_to_end(from.number);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  lseek(complaints.number, 0, SEEK_SET);
  output.complaints = read_to_end(complaints.number);
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
  for (float& sample : samples)
    if (!std::isfinite(sample)) sample = 0;
  return samples;
}

Audio read_through_ffmpeg(const std::filesystem::path& path, int sample_rate) {
  // The filter puts silence where a track begins late or has a gap, so that times are the file's.
  const Output output = run_and_read({"ffmpeg",
                                      "-nostdin",
                                      "-hide_banner",
                                      "-loglevel",
                                      "error",
                                      "-protocol_whitelist",
                                      "file,pipe",
                                      "-i",
                                      "file:" + path.string(),
                                      "-map",
                                      "0:a:0",
                                      "-af",
                                      "aresample=async=1:first_pts=0",
                                      "-ac",
                                      "1",
                                      "-ar",
                                      std::to_string(sample_rate),
                                      "-f",
                                      "f32le",
                                      "pipe:1"});
  if (output.start_error == ENOENT) {
    throw UserError(path.string(), "needs ffmpeg, which is not installed",
                    "install it (apt install ffmpeg), or convert the file to WAV or FLAC");
  }
  if (output.start_error != 0) {
    throw UserError(path.string(),
                    fmt::format("ffmpeg does not start: {}", std::strerror(output.start_error)));
  }
  const std::string complaint = last_line(output.complaints);
  if (output.code != 0) {
    throw UserError(
        path.string(),
        fmt::format("ffmpeg cannot read it: {}", complaint.empty() ? "no reason given" : complaint),
        "check the file, or convert it to WAV or FLAC");
  }
  Audio audio{.samples = samples_of(output.bytes), .sample_rate = sample_rate, .notices = {}};
  if (audio.samples.empty())
    throw UserError(path.string(), "empty audio: no samples", "leave the file out");
  // ffmpeg goes on behind damage, and what it leaves out would be missing without a word.
  if (!complaint.empty() || riff_is_cut(path)) {
    throw UserError(path.string(),
                    fmt::format("truncated or corrupt: ffmpeg reads {:.2f} s of it{}{}",
                                audio.seconds(), complaint.empty() ? "" : " and says: ", complaint),
                    "copy or convert the file again");
  }
  return audio;
}

/// Whether libsndfile has no way into a file that ffmpeg may open.
bool needs_ffmpeg(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  if (!is_for_ffmpeg(path) && !is_wav_of_other_codec(path)) return false;
  try {
    const AudioReader reader(path);
  } catch (const UserError&) {
    return true;
  }
  return false;
}

}  // namespace

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

Audio read_media(const std::filesystem::path& path, int sample_rate) {
  return needs_ffmpeg(path) ? read_through_ffmpeg(path, sample_rate)
                            : read_audio(path, sample_rate);
}

double media_seconds(const std::filesystem::path& path) {
  return needs_ffmpeg(path) ? 0 : audio_seconds(path);
}

}  // namespace rtfx
