#include "datasets/audio.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sndfile.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/samples.h"
#include "datasets/audio_resampler.h"
#include "datasets/container.h"
#include "datasets/mp3.h"

namespace rtfx {

namespace {

const char* const kFormats = "give a WAV, FLAC or Ogg file";

/// Limits in Hz. Speech needs no other rates. A header of a few bytes that states 1 Hz would ask
/// for hours of samples.
constexpr int kLowestRate = 1000, kHighestRate = 768000;

/// Reads a file for libsndfile in blocks of 256 KiB. libsndfile's own blocks of 8 KiB take 14,000
/// reads for an hour. The file begins after an ID3v2 tag, because libsndfile skips the tag but
/// counts its bytes as audio. A FLAC file without a length ends before its tags, since libFLAC
/// would take them for damage.
class BufferedFile {
 public:
  explicit BufferedFile(const std::filesystem::path& path)
      : file_(std::fopen(path.c_str(), "rb"), &std::fclose) {
    if (!file_)
      throw UserError(path.string(), std::generic_category().message(errno), "check the path");
    std::setvbuf(file_.get(), nullptr, _IOFBF, size_t{1} << 18);
    end_ = static_cast<sf_count_t>(std::filesystem::file_size(path));
    begin_ = std::min(static_cast<sf_count_t>(id3v2_bytes(path)), end_);
    header_ = mended_header(path, static_cast<size_t>(begin_));
    // mended_header() replaces the length of FLAC files that have one.
    if (header_.empty() && bytes_at(path, static_cast<size_t>(begin_), 4) == "fLaC")
      end_ = std::max(begin_, end_ - static_cast<sf_count_t>(tag_bytes_at_end(path)));
    std::fseek(file_.get(), begin_, SEEK_SET);
  }

  /// The callbacks of sf_open_virtual(), whose user data points to this object.
  static SF_VIRTUAL_IO functions() {
    return {.get_filelen = [](void* data) { return self(data).end_ - self(data).begin_; },
            .seek = [](sf_count_t offset, int whence,
                       void* data) { return self(data).seek(offset, whence); },
            .read = [](void* to, sf_count_t count,
                       void* data) { return self(data).read(static_cast<char*>(to), count); },
            .write = [](const void*, sf_count_t, void*) -> sf_count_t { return 0; },
            .tell = [](void* data) { return self(data).tell(); }};
  }

 private:
  static BufferedFile& self(void* data) { return *static_cast<BufferedFile*>(data); }

  sf_count_t read(char* to, sf_count_t count) {
    const sf_count_t from = tell();
    count = std::clamp<sf_count_t>(end_ - begin_ - from, 0, count);
    count = static_cast<sf_count_t>(std::fread(to, 1, static_cast<size_t>(count), file_.get()));
    const auto header = static_cast<sf_count_t>(header_.size());
    if (from < header) std::copy_n(header_.data() + from, std::min(count, header - from), to);
    return count;
  }
  sf_count_t tell() const { return ftello(file_.get()) - begin_; }
  sf_count_t seek(sf_count_t offset, int whence) {
    if (whence == SEEK_SET) offset += begin_;
    if (whence == SEEK_END) {
      offset += end_;
      whence = SEEK_SET;
    }
    return fseeko(file_.get(), offset, whence) == 0 ? tell() : -1;
  }

  std::unique_ptr<FILE, decltype(&std::fclose)> file_;
  sf_count_t begin_ = 0, end_ = 0;  // bytes of the file on the disk, without tags
  std::string header_;              // replaces the first bytes
};

struct AudioFile {
  std::unique_ptr<Mp3> mp3;            // null where `handle` reads the file
  std::unique_ptr<BufferedFile> file;  // null for a pipe
  std::unique_ptr<SNDFILE, decltype(&sf_close)> handle{nullptr, &sf_close};
  SF_INFO info{};

  bool length_known() const { return info.frames < SF_COUNT_MAX; }
};

void check_rate(const std::string& name, int rate) {
  if (rate >= kLowestRate && rate <= kHighestRate) return;
  throw UserError(name, fmt::format("its header says {} Hz", rate),
                  fmt::format("sample rates are {} to {} Hz", kLowestRate, kHighestRate));
}

AudioFile open_audio(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw UserError(path.string(), "no such file", "check the path");
  }
  if (status.type() == std::filesystem::file_type::none) {
    throw UserError(path.string(), failed.message(), "check the path");
  }
  if (status.type() == std::filesystem::file_type::fifo) {
    throw UserError(path.string(), "is a pipe, whose size nobody knows",
                    "give it as standard input, which is called `-`");
  }
  if (status.type() != std::filesystem::file_type::regular) {
    throw UserError(path.string(), "is a directory or device, not an audio file",
                    "name an audio file");
  }
  AudioFile file;
  if (begins_as_mp3(path)) {
    file.mp3 = std::make_unique<Mp3>(path);
  } else if (const auto frames = mpeg_in_wav(path, id3v2_bytes(path))) {
    file.mp3 = std::make_unique<Mp3>(path, frames);
  } else {
    file.file = std::make_unique<BufferedFile>(path);
    SF_VIRTUAL_IO functions = BufferedFile::functions();
    file.handle.reset(sf_open_virtual(&functions, SFM_READ, &file.info, file.file.get()));
    if (!file.handle) {
      // libsndfile's own messages belong to the last format that it tried, not to the file.
      if (holds_several_wavs(path, id3v2_bytes(path)))
        throw UserError(path.string(), "holds several WAV files", "give each as a file of its own");
      throw UserError(path.string(),
                      "not readable as audio: truncated, corrupt or of an unknown format",
                      kFormats);
    }
    const int type = file.info.format & SF_FORMAT_TYPEMASK;
    if (type == SF_FORMAT_MPEG) file.mp3 = std::make_unique<Mp3>(path);
    if (type == SF_FORMAT_FLAC && file.length_known()) --file.info.frames;  // mended_header()
  }
  if (file.mp3) {
    file.info = {.frames = SF_COUNT_MAX,
                 .samplerate = file.mp3->sample_rate(),
                 .channels = file.mp3->channels(),
                 .format = SF_FORMAT_MPEG,
                 .sections = 1,
                 .seekable = 0};
  }
  check_rate(path.string(), file.info.samplerate);
  return file;
}

std::string log_of(SNDFILE* handle) {
  std::array<char, 16384> log{};
  sf_command(handle, SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  return log.data();
}

}  // namespace

/// A pipe, and the number of its bytes that were read.
struct PipeInput {
  int descriptor = -1;
  size_t bytes = 0;
  int error = 0;  // errno of a failed read, which ended the input

  /// Reads the next bytes. Returns fewer than `size` only at the end, or where reading failed.
  size_t read(char* to, size_t size) {
    size_t got = 0;
    while (got < size && error == 0) {
      const ssize_t count = ::read(descriptor, to + got, size - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {  // set not to wait
        pollfd more = {descriptor, POLLIN, 0};
        poll(&more, 1, -1);
        continue;
      }
      if (count < 0) error = errno;
      if (count <= 0) break;
      got += static_cast<size_t>(count);
    }
    bytes += got;
    return got;
  }
};

namespace {

/// Lets libsndfile read from a PipeInput. libsndfile must not seek in it.
SF_VIRTUAL_IO pipe_functions() {
  return {.get_filelen = [](void*) -> sf_count_t { return SF_COUNT_MAX; },
          .seek = [](sf_count_t offset, int, void*) { return offset; },
          .read =
              [](void* to, sf_count_t size, void* input) {
                return static_cast<sf_count_t>(static_cast<PipeInput*>(input)->read(
                    static_cast<char*>(to), static_cast<size_t>(size)));
              },
          .write = [](const void*, sf_count_t, void*) -> sf_count_t { return 0; },
          .tell = [](void*) -> sf_count_t { return 0; }};
}

/// Opens the samples of a WAV file whose header has been read from a pipe. Returns null for a codec
/// that needs more than the samples.
SNDFILE* open_samples(PipeInput& input, const WavHeader& wav, SF_INFO& info) {
  const int coding = [&]() -> int {
    switch (wav.codec << 8U | static_cast<uint32_t>(wav.bits)) {
      case 0x108:
        return SF_FORMAT_PCM_U8;
      case 0x110:
        return SF_FORMAT_PCM_16;
      case 0x118:
        return SF_FORMAT_PCM_24;
      case 0x120:
        return SF_FORMAT_PCM_32;
      case 0x320:
        return SF_FORMAT_FLOAT;
      case 0x340:
        return SF_FORMAT_DOUBLE;
      case 0x608:
        return SF_FORMAT_ALAW;
      case 0x708:
        return SF_FORMAT_ULAW;
      default:
        return 0;
    }
  }();
  if (coding == 0) return nullptr;
  info = {.frames = SF_COUNT_MAX,
          .samplerate = wav.sample_rate,
          .channels = wav.channels,
          .format = SF_FORMAT_RAW | SF_ENDIAN_LITTLE | coding,
          .sections = 1,
          .seekable = 0};
  SF_VIRTUAL_IO functions = pipe_functions();
  return sf_open_virtual(&functions, SFM_READ, &info, &input);
}

/// The state of a decoded file.
struct Decoding {
  size_t samples = 0;               // samples read, or skipped by go_to()
  std::optional<size_t> failed_at;  // samples before the first error
  bool has_jumped = false;          // by go_to()
};

/// Describes the damage of the container. The text is empty if there is none.
std::string container_problem(const std::filesystem::path& path, const AudioFile& file,
                              const Decoding& decoding) {
  if (file.mp3) return "";  // read() has checked it
  const int type = file.info.format & SF_FORMAT_TYPEMASK;
  if (type == SF_FORMAT_OGG) return ogg_problem(path);
  const size_t begin = id3v2_bytes(path), samples = decoding.samples;
  // The FLAC decoder has read beyond the last sample, since mended_header() declares one more. It
  // fails at a second file there. After a jump, it may already read the second file, since it looks
  // for a frame of that number in both.
  const bool more =
      static_cast<sf_count_t>(samples) > file.info.frames || goes_on_behind_samples(path, begin);
  const bool may_be_several =
      more || decoding.failed_at || (type == SF_FORMAT_FLAC && decoding.has_jumped);
  if (may_be_several && holds_several_flacs(path)) {
    return fmt::format("holds several FLAC files, the second behind sample {}",
                       file.length_known() ? static_cast<size_t>(file.info.frames) : samples);
  }
  if (more)
    return fmt::format("goes on behind sample {}, where its header ends it", file.info.frames);
  const bool ends_early =
      file.length_known() && static_cast<sf_count_t>(samples) < file.info.frames;
  if (ends_early || ends_within_samples(path, begin) || declares_more(log_of(file.handle.get())))
    return fmt::format("truncated or corrupt after sample {}, its header declares more", samples);
  // A streamed FLAC file declares no length, so only the decoder's error tells that it is damaged.
  // Where the length is known and all samples are there, something harmless follows them.
  if (!decoding.failed_at || file.length_known()) return "";
  return fmt::format("truncated or corrupt after sample {}", *decoding.failed_at);
}

}  // namespace

struct AudioReader::File {
  std::filesystem::path path;
  AudioFile audio;
  std::optional<AudioResampler> resampler;
  std::vector<float> ready;  // resampled; those before `given` were returned
  size_t given = 0;
  size_t taken = 0;  // resampled samples returned or skipped
  bool ended = false;
  sf_count_t block = 16384;  // frames per read
  bool pipe = false;
  PipeInput input;
  bool raw = false;            // 16 bit samples, which are read directly from the pipe
  size_t frame_bytes = 2;      // of a pipe: one sample of each channel
  size_t header_bytes = 0;     // of a pipe: bytes before its samples
  size_t odd_bytes = 0;        // of a pipe: bytes at its end that are no whole frame
  bool declares_end = false;   // of a pipe: its header has a length, and no mark for an unknown one
  uint64_t left = UINT64_MAX;  // of a pipe: frames up to the end that its header declares
  size_t rest_bytes = 0;       // of a pipe: bytes after the last of these frames, less than a frame
  bool is_padded = false;      // of a pipe: RIFF pads an odd size with a byte
  int channel = 0;             // the one to read; 0 = the average of all
  MixPower power;
  Decoding decoding;

  /// Returns samples of the file, one for each of its frames, and none at its end.
  std::vector<float> mono() {
    if (audio.mp3) return mp3_frames();
    if (raw) return raw_samples();
    const auto channels = static_cast<size_t>(audio.info.channels);
    const auto most =
        static_cast<sf_count_t>(std::min<uint64_t>(left, static_cast<uint64_t>(block)));
    std::vector<float> all(static_cast<size_t>(most) * channels);
    const auto frames = static_cast<size_t>(sf_readf_float(audio.handle.get(), all.data(), most));
    // libsndfile forgets an error at its next call, and its log may be full.
    if (!decoding.failed_at && sf_error(audio.handle.get()) != 0)
      decoding.failed_at = decoding.samples + frames;
    left -= frames;
    if (channels > 1) power += mix(all.data(), frames, channels, channel);
    all.resize(frames);
    return all;
  }

  std::vector<float> raw_samples() {
    std::vector<int16_t> values(static_cast<size_t>(block));
    const size_t got =
        input.read(reinterpret_cast<char*>(values.data()), values.size() * sizeof(int16_t));
    values.resize(got / sizeof(int16_t));
    std::vector<float> samples(values.size());
    std::ranges::transform(values, samples.begin(), [](int16_t v) { return v / 32768.0F; });
    return samples;
  }

  /// Returns the number of bytes of a block of a pipe.
  int block_bytes() const { return static_cast<int>(block) * static_cast<int>(frame_bytes); }

  /// Joins frames to a block, because one frame has only some hundred samples.
  std::vector<float> mp3_frames() {
    std::vector<float> all = audio.mp3->read();
    while (!all.empty() && static_cast<sf_count_t>(all.size()) < block) {
      const std::vector<float> frame = audio.mp3->read();
      if (frame.empty()) break;
      all.insert(all.end(), frame.begin(), frame.end());
    }
    power += audio.mp3->take_power();
    return all;
  }

  void read_block() {
    const std::vector<float> block = mono();
    require_valid_samples(block, path.string(), "repair the file or leave it out",
                          decoding.samples);
    decoding.samples += block.size();
    if (block.empty()) {
      if (pipe) odd_bytes = (input.bytes - header_bytes) % frame_bytes;
      check_end();
    }
    if (resampler) {
      resampler->process(block, ready);
    } else {
      ready.insert(ready.end(), block.begin(), block.end());
    }
    ended = block.empty();
  }

  /// Describes the data after the declared end of a pipe, if they come within 0.2 s. The text is
  /// empty where nothing valuable is lost, by the rules of goes_on_behind_samples(). Of zeros, it
  /// reads at most 1 MiB.
  std::string pipe_problem() {
    if (left > 0) return "";
    const auto next_bytes = [&](size_t count) {
      pollfd more = {input.descriptor, POLLIN, 0};
      std::string bytes(count, '\0');
      bytes.resize(poll(&more, 1, 200) > 0 ? input.read(bytes.data(), count) : 0);
      return bytes;
    };
    if (rest_bytes > 0) next_bytes(rest_bytes);
    constexpr size_t kName = 4, kMostZeros = size_t{1} << 20;
    std::string next;
    for (size_t zeros = 0; next.size() < kName && zeros < kMostZeros;) {
      const std::string more = next_bytes(kName - next.size());
      if (more.empty()) break;
      next += more;
      const size_t first = std::min(next.find_first_not_of('\0'), next.size());
      next.erase(0, first);
      zeros += first;
    }
    if (is_padded && next.size() == kName && !begins_chunk(next))
      next = next.substr(1) + next_bytes(1);  // the padding may be another byte than zero
    if (next == "RIFF")
      return fmt::format("holds several WAV files, the second behind sample {}", decoding.samples);
    if (next.size() < kName || begins_chunk(next) || begins_tag(next)) return "";
    return fmt::format("goes on behind sample {}, where its header ends it", decoding.samples);
  }

  void check_end() {
    if (input.error != 0) {
      throw UserError(path.string(),
                      "cannot be read to its end: " + std::generic_category().message(input.error),
                      "start the program again that writes it");
    }
    const std::string problem = pipe ? pipe_problem() : container_problem(path, audio, decoding);
    if (!problem.empty()) throw UserError(path.string(), problem, "copy or convert the file again");
    if (decoding.samples == 0)
      throw UserError(path.string(), "empty audio: no samples", "leave the file out");
  }
};

AudioReader::AudioReader(const std::filesystem::path& path, int sample_rate, int channel)
    : file_(std::make_unique<File>()), sample_rate_(sample_rate) {
  file_->path = path;
  file_->audio = open_audio(path);
  file_->channel = channel;
  if (file_->audio.mp3) file_->audio.mp3->choose(channel);
  require_channel(path, channel, file_->audio.info.channels);
  start();
}

AudioReader::AudioReader(int descriptor, const std::string& name, int raw_rate, int sample_rate)
    : file_(std::make_unique<File>()), sample_rate_(sample_rate) {
  file_->path = name;
  file_->pipe = true;
  file_->input.descriptor = descriptor;
  file_->raw = raw_rate > 0;
  AudioFile& audio = file_->audio;
  if (file_->raw) {
    audio.info = {SF_COUNT_MAX, raw_rate, 1, SF_FORMAT_RAW | SF_FORMAT_PCM_16, 1, 0};
  } else {
    const auto wav = read_wav_header([&](size_t count) {
      std::string bytes(count, '\0');
      bytes.resize(file_->input.read(bytes.data(), count));
      return bytes;
    });
    if (wav) check_rate(name, wav->sample_rate);
    if (wav) audio.handle.reset(open_samples(file_->input, *wav, audio.info));
    if (!audio.handle) {
      throw UserError(name, "not readable as audio: no WAV file of plain samples",
                      "pipe it through `ffmpeg -i - -f wav -`, or give 16 bit samples with --raw "
                      "16000");
    }
    file_->frame_bytes = static_cast<size_t>(wav->channels) * static_cast<size_t>(wav->bits / 8);
    file_->header_bytes = file_->input.bytes;
    if (wav->bytes < UINT64_MAX) {
      file_->declares_end = true;
      file_->left = wav->bytes / file_->frame_bytes;
      file_->rest_bytes = wav->bytes % file_->frame_bytes;
      file_->is_padded = wav->bytes % 2 == 1;
    }
  }
  file_->block = std::max(1, audio.info.samplerate / 20);
  start();
}

void AudioReader::start() {
  const SF_INFO& info = file_->audio.info;
  if (info.channels > 1 && file_->channel == 0) notices_.push_back(mixed_notice(info.channels));
  if (info.samplerate != sample_rate_) {
    file_->resampler.emplace(info.samplerate, sample_rate_);
    notices_.push_back(fmt::format("resampled from {} Hz to {} Hz", info.samplerate, sample_rate_));
  }
}

AudioReader::~AudioReader() = default;

std::vector<float> AudioReader::read(size_t count) {
  File& f = *file_;
  while (!f.ended && f.ready.size() - f.given < count) {
    if (f.given > f.ready.size() / 2) {
      f.ready.erase(f.ready.begin(), f.ready.begin() + static_cast<ptrdiff_t>(f.given));
      f.given = 0;
    }
    f.read_block();
    if (!f.ended) continue;
    if (f.power.cancels()) notices_.push_back(MixPower::notice());
    if (f.audio.mp3 && !f.audio.mp3->notice().empty()) notices_.push_back(f.audio.mp3->notice());
    // A recorder that is stopped may leave a length that it never reached, so this is no error.
    if (f.declares_end && f.left > 0) {
      notices_.push_back(fmt::format("ends after sample {}, and its header declares {}",
                                     f.decoding.samples, f.decoding.samples + f.left));
    }
    if (f.odd_bytes > 0) {
      notices_.push_back(
          fmt::format("ends within a sample: its last {} left out",
                      f.odd_bytes == 1 ? "byte is" : fmt::format("{} bytes are", f.odd_bytes)));
    }
  }
  const size_t end = std::min(f.ready.size(), f.given + count);
  std::vector<float> samples(f.ready.begin() + static_cast<ptrdiff_t>(f.given),
                             f.ready.begin() + static_cast<ptrdiff_t>(end));
  f.given = end;
  f.taken += samples.size();
  return samples;
}

bool AudioReader::wait(int milliseconds) const {
  struct stat status {};
  if (!file_->pipe || fstat(file_->input.descriptor, &status) != 0 || S_ISREG(status.st_mode))
    return true;
  // A small pipe never holds a whole block, so half of its capacity is enough.
  constexpr int kLeastPipe = 4096;
  const int holds = std::max(kLeastPipe, fcntl(file_->input.descriptor, F_GETPIPE_SZ));
  const int wanted = std::min(file_->block_bytes(), holds / 2);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    pollfd input = {file_->input.descriptor, POLLIN | POLLRDHUP, 0};
    const int ready = poll(&input, 1, milliseconds);
    if (ready > 0) {
      int bytes = 0;
      const bool ends = (input.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
      if (ends || ioctl(file_->input.descriptor, FIONREAD, &bytes) != 0 || bytes >= wanted ||
          bytes == 0)
        return true;
    }
    if (std::chrono::steady_clock::now() >= until) return false;
    if (ready > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

size_t AudioReader::position() const { return file_->taken; }

bool AudioReader::any_order() const {
  const SF_INFO& info = file_->audio.info;
  const int type = info.format & SF_FORMAT_TYPEMASK, coding = info.format & SF_FORMAT_SUBMASK;
  constexpr std::array kTypes = {SF_FORMAT_WAV,  SF_FORMAT_WAVEX, SF_FORMAT_RF64, SF_FORMAT_W64,
                                 SF_FORMAT_AIFF, SF_FORMAT_AU,    SF_FORMAT_CAF,  SF_FORMAT_FLAC};
  constexpr std::array kCodings = {SF_FORMAT_PCM_S8, SF_FORMAT_PCM_U8, SF_FORMAT_PCM_16,
                                   SF_FORMAT_PCM_24, SF_FORMAT_PCM_32, SF_FORMAT_FLOAT,
                                   SF_FORMAT_DOUBLE, SF_FORMAT_ULAW,   SF_FORMAT_ALAW};
  return !file_->pipe && !file_->resampler && info.seekable != 0 && file_->audio.length_known() &&
         std::ranges::find(kTypes, type) != kTypes.end() &&
         std::ranges::find(kCodings, coding) != kCodings.end();
}

void AudioReader::go_to(size_t sample) {
  RTFX_CHECK(any_order(), "a file that is read in order");
  File& f = *file_;
  f.ready.clear();
  f.given = 0;
  f.taken = f.decoding.samples = sample;
  f.decoding.has_jumped = true;
  // At the end itself, one more read is needed to see the end.
  f.ended = static_cast<sf_count_t>(sample) > f.audio.info.frames;
  if (f.ended) return;
  // libFLAC cannot seek to the end. It seeks to the last sample, which is then read.
  const sf_count_t at_end = sample > 0 && static_cast<sf_count_t>(sample) == f.audio.info.frames;
  std::vector<float> last(static_cast<size_t>(f.audio.info.channels));
  if (sf_seek(f.audio.handle.get(), static_cast<sf_count_t>(sample) - at_end, SEEK_SET) < 0 ||
      sf_readf_float(f.audio.handle.get(), last.data(), at_end) != at_end) {
    throw UserError(f.path.string(), fmt::format("not readable from sample {} on", sample),
                    "copy or convert the file again");
  }
}

MixPower AudioReader::take_power() { return std::exchange(file_->power, {}); }

Audio read_audio(const std::filesystem::path& path, int sample_rate, int channel) {
  constexpr size_t kBlock = size_t{1} << 20;
  AudioReader reader(path, sample_rate, channel);
  Audio audio{{}, sample_rate, {}};
  for (auto block = reader.read(kBlock); !block.empty(); block = reader.read(kBlock))
    audio.samples.insert(audio.samples.end(), block.begin(), block.end());
  audio.notices = reader.notices();
  return audio;
}

int audio_channels(const std::filesystem::path& path) { return open_audio(path).info.channels; }

bool is_whole(const AudioSegment& segment, double seconds) {
  constexpr double kRounding = 0.05;
  return segment.offset == 0 &&
         (segment.seconds == 0 || std::abs(segment.seconds - seconds) <= kRounding);
}

void cut(Audio& audio, const AudioSegment& segment, const std::string& where) {
  const double whole = audio.seconds(), rest = whole - segment.offset;
  std::span<const float> kept = audio.samples;
  // A shortened vector would keep the memory of the whole recording.
  const auto keep = [&] {
    if (kept.size() < audio.samples.size()) audio.samples = std::vector(kept.begin(), kept.end());
  };
  if (segment.offset > 0) {
    const auto begin = rest > 0 ? std::llround(segment.offset * audio.sample_rate) : 0;
    if (rest <= 0 || static_cast<size_t>(begin) >= audio.samples.size()) {
      throw UserError(
          where, fmt::format("begins at {} s of a recording of {:.2f} s", segment.offset, whole),
          "correct its offset");
    }
    kept = kept.subspan(static_cast<size_t>(begin));
  }
  if (is_whole({.offset = 0, .seconds = segment.seconds}, rest)) return keep();
  if (segment.seconds > rest) {
    audio.notices.push_back(fmt::format("the manifest says {} s, and the recording has {:.2f} s",
                                        segment.seconds, rest));
    return keep();
  }
  if (segment.offset == 0) {
    audio.notices.push_back(fmt::format("only the first {} s of {:.2f} s, as the manifest says",
                                        segment.seconds, whole));
  }
  const auto count = static_cast<size_t>(std::llround(segment.seconds * audio.sample_rate));
  if (count == 0) {
    throw UserError(where, fmt::format("its {} s are less than a sample", segment.seconds),
                    "correct its duration");
  }
  kept = kept.first(std::min(count, kept.size()));
  keep();
}

double audio_seconds(const std::filesystem::path& path) {
  const AudioFile file = open_audio(path);
  if (file.mp3) return file.mp3->seconds();
  if (!file.length_known()) return 0;
  return static_cast<double>(file.info.frames) / file.info.samplerate;
}

}  // namespace rtfx
