#include "datasets/mp3.h"

#include <fmt/format.h>
#include <mpg123.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace rtfx {
namespace {

/// Returns whether `bytes` begin with the header of a frame.
bool is_frame(const std::string& bytes) {
  if (bytes.size() < 2) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const auto second = static_cast<unsigned char>(bytes[1]);
  const bool has_layer = (second & 0x06U) != 0;  // AAC has the same eleven bits, and layer 0
  return first == 0xff && (second & 0xe0U) == 0xe0 && has_layer;
}

/// Returns whether bytes between frames are of a kind that taggers and recorders leave there.
bool is_harmless(std::string_view bytes) {
  return begins_tag(bytes) || std::ranges::all_of(bytes, [](char c) { return c == '\0'; });
}

/// Returns whether an encoder wrote the number of following frames into this frame. Such a frame
/// has "Xing" or "Info" and flags after its side information, which is 9 to 32 bytes long.
bool tells_its_length(const std::string& frame) {
  for (const std::string_view name : {"Xing", "Info"}) {
    const size_t found = frame.find(name);
    if (found != std::string::npos && found + 8 <= frame.size()) return (frame[found + 7] & 1) != 0;
  }
  return false;
}

}  // namespace

void Mp3::Deleter::operator()(mpg123_handle_struct* handle) const { mpg123_delete(handle); }

bool begins_tag(std::string_view head) {
  return head.starts_with("ID3") || head.starts_with("TAG") || head.starts_with("APETAGEX") ||
         head.starts_with("LYRICSBEGIN");
}

size_t id3v2_size(const std::string& head) {
  size_t size = 0;
  for (size_t i = 6; i < 10; ++i) size = size << 7U | (static_cast<unsigned char>(head[i]) & 0x7fU);
  const bool has_footer = (static_cast<unsigned char>(head[5]) & 0x10U) != 0;
  return size + (has_footer ? 10 : 0);
}

size_t id3v2_bytes(const std::filesystem::path& path, size_t begin) {
  size_t end = begin;
  for (;;) {
    const std::string head = bytes_at(path, end, 10);
    if (head.size() < 10 || !head.starts_with("ID3")) return end - begin;
    end += head.size() + id3v2_size(head);
  }
}

bool begins_as_mp3(const std::filesystem::path& path) {
  return is_frame(bytes_at(path, id3v2_bytes(path), 2));
}

Mp3::Mp3(const std::filesystem::path& path, std::optional<ByteRange> range) : path_(path) {
  const size_t size = std::filesystem::file_size(path);
  if (!range) range = {.begin = 0, .end = size};
  bytes_.file.reset(std::fopen(path.c_str(), "rb"));
  bytes_.begin = std::min(range->begin, size);
  bytes_.size = std::min(range->end, size) - bytes_.begin;
  bytes_.is_cut = range->end > size;
  static const int initialized = mpg123_init();
  RTFX_CHECK(initialized == MPG123_OK, "mpg123_init");
  int error = MPG123_OK;
  handle_.reset(mpg123_new(nullptr, &error));
  RTFX_CHECK(handle_ != nullptr, fmt::format("mpg123: {}", mpg123_plain_strerror(error)));
  mpg123_param(handle_.get(), MPG123_ADD_FLAGS,
               MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS | MPG123_SKIP_ID3V2, 0);
  mpg123_param(handle_.get(), MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0);
  mpg123_param(handle_.get(), MPG123_RVA, MPG123_RVA_OFF, 0);
  mpg123_replace_reader_handle(handle_.get(), &Bytes::read, &Bytes::seek, nullptr);
  long rate = 0;
  int encoding = 0;
  if (!bytes_.file || mpg123_open_handle(handle_.get(), &bytes_) != MPG123_OK ||
      mpg123_getformat(handle_.get(), &rate, &channels_, &encoding) != MPG123_OK)
    refuse("not readable as audio: no MPEG frame");
  sample_rate_ = static_cast<int>(rate);
  // After the first frame, the next one is searched for up to the end.
  mpg123_param(handle_.get(), MPG123_RESYNC_LIMIT, -1, 0);
  if (tells_its_length(bytes_at(id3v2_bytes(path, bytes_.begin), 64)))
    promised_ = static_cast<size_t>(std::max<off_t>(mpg123_length(handle_.get()), 0));
}

ssize_t Mp3::Bytes::read(void* data, void* to, size_t count) {
  const Bytes& self = *static_cast<Bytes*>(data);
  const auto at = static_cast<size_t>(ftello(self.file.get())) - self.begin;
  count = at < self.size ? std::min(count, self.size - at) : 0;
  return static_cast<ssize_t>(std::fread(to, 1, count, self.file.get()));
}

off_t Mp3::Bytes::seek(void* data, off_t offset, int whence) {
  const Bytes& self = *static_cast<Bytes*>(data);
  const auto begin = static_cast<off_t>(self.begin);
  if (whence == SEEK_CUR) offset += ftello(self.file.get()) - begin;
  if (whence == SEEK_END) offset += static_cast<off_t>(self.size);
  return fseeko(self.file.get(), begin + offset, SEEK_SET) == 0 ? offset : -1;
}

std::string Mp3::bytes_at(size_t begin, size_t count) const {
  if (begin >= bytes_.size) return "";
  return rtfx::bytes_at(path_, bytes_.begin + begin, std::min(count, bytes_.size - begin));
}

std::vector<float> Mp3::read() {
  for (;;) {
    off_t number = 0;
    unsigned char* bytes = nullptr;
    size_t count = 0;
    const int result = mpg123_decode_frame(handle_.get(), &number, &bytes, &count);
    if (result == MPG123_DONE) {
      check_end();
      return {};
    }
    if (result != MPG123_OK && result != MPG123_NEW_FORMAT)
      refuse(fmt::format("corrupt behind byte {}: {}", bytes_.begin + end_,
                         mpg123_strerror(handle_.get())));
    mpg123_frameinfo frame;
    mpg123_info(handle_.get(), &frame);
    const auto begin = static_cast<size_t>(mpg123_framepos(handle_.get()));
    if (begin >= end_) {
      check_gap(begin);
      end_ = begin + static_cast<size_t>(frame.framesize);
    }
    if (result == MPG123_NEW_FORMAT) take_format();
    if (count == 0) continue;  // the decoder's delay is cut off
    const auto channels = static_cast<size_t>(channels_);
    std::vector<float> samples(count / sizeof(float));
    std::memcpy(samples.data(), bytes, samples.size() * sizeof(float));
    count_silence(samples);
    const size_t frames = samples.size() / channels;
    if (channels > 1)
      power_ += mix(samples.data(), frames, channels, std::min(channel_, channels_));
    samples.resize(frames);
    samples_ += samples.size();
    return samples;
  }
}

void Mp3::take_format() {
  long rate = 0;
  int encoding = 0;
  mpg123_getformat(handle_.get(), &rate, &channels_, &encoding);
  if (rate == sample_rate_) return;
  refuse(fmt::format("changes from {} Hz to {} Hz after {:.1f} s", sample_rate_, rate,
                     static_cast<double>(samples_) / sample_rate_));
}

void Mp3::check_gap(size_t next) const {
  if (end_ == 0 || next == end_ || is_harmless(bytes_at(end_, next - end_))) return;
  refuse(fmt::format("corrupt at byte {}: {} bytes are no MPEG frame", bytes_.begin + end_,
                     next - end_));
}

void Mp3::check_end() const {
  const auto frame = static_cast<size_t>(std::max(mpg123_spf(handle_.get()), 0));
  if (bytes_.is_cut || samples_ + frame < promised_ || is_frame(bytes_at(end_, 2)))
    refuse(fmt::format("truncated or corrupt after sample {}, its header declares more", samples_));
  if (end_ < bytes_.size) check_gap(bytes_.size);
}

void Mp3::count_silence(const std::vector<float>& samples) {
  constexpr float kLoud = 1e-3F;
  constexpr size_t kGranule = 576, kEnd = 32;  // samples per channel: decoded at once; examined
  const auto channels = static_cast<size_t>(channels_);
  const auto sound =
      std::find_if(samples.rbegin(), samples.rend(), [](float value) { return value != 0; });
  const auto zeros = static_cast<size_t>(sound - samples.rbegin());
  if (sound != samples.rend()) {
    const auto end = sound + std::min<ptrdiff_t>(samples.rend() - sound,
                                                 static_cast<ptrdiff_t>(kEnd * channels));
    was_loud_ = std::any_of(sound, end, [](float value) { return std::abs(value) > kLoud; });
  }
  // Decoded sound fades, because windows overlap. Only silence in place of undecoded frames begins
  // with a jump.
  const auto frame = static_cast<size_t>(std::max(mpg123_spf(handle_.get()), 1));
  if (!was_loud_ || zeros < std::min(kGranule, frame) * channels) return;
  if (silent_ == 0) first_silent_ = samples_ + (samples.size() - zeros) / channels;
  silent_ += zeros / channels;
}

std::string Mp3::notice() const {
  if (silent_ == 0) return "";
  return fmt::format("{:.3f} s of damaged MPEG frames are silent, the first at {:.2f} s",
                     static_cast<double>(silent_) / sample_rate_,
                     static_cast<double>(first_silent_) / sample_rate_);
}

void Mp3::refuse(const std::string& problem) const {
  throw UserError(path_.string(), problem, "copy or convert the file again");
}

double Mp3::seconds() const {
  mpg123_scan(handle_.get());
  return static_cast<double>(mpg123_length(handle_.get())) / sample_rate_;
}

}  // namespace rtfx
