#include "datasets/mp3.h"

#include <fmt/format.h>
#include <mpg123.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.h"

namespace rtfx {
namespace {

std::string bytes_at(const std::filesystem::path& path, size_t begin, size_t count) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(begin));
  std::string bytes(count, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

/// Whether `bytes` begin as the head of a frame does.
bool is_frame(const std::string& bytes) {
  if (bytes.size() < 2) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const auto second = static_cast<unsigned char>(bytes[1]);
  const bool has_layer = (second & 0x06U) != 0;  // AAC has the same eleven bits, and layer 0.
  return first == 0xff && (second & 0xe0U) == 0xe0 && has_layer;
}

/// Whether bytes between frames are what taggers and recorders leave there.
bool is_harmless(std::string_view bytes) {
  for (const std::string_view tag : {"ID3", "TAG", "APETAGEX", "LYRICSBEGIN"}) {
    if (bytes.starts_with(tag)) return true;
  }
  return std::ranges::all_of(bytes, [](char c) { return c == '\0'; });
}

/// Whether the frame at `begin` is the one in which an encoder writes how many frames follow: after
/// its side information, which is 9 to 32 bytes long, "Xing" or "Info" and flags.
bool tells_its_length(const std::filesystem::path& path, size_t begin) {
  const std::string frame = bytes_at(path, begin, 64);
  for (const std::string_view name : {"Xing", "Info"}) {
    const size_t found = frame.find(name);
    if (found != std::string::npos && found + 8 <= frame.size()) return (frame[found + 7] & 1) != 0;
  }
  return false;
}

}  // namespace

void Mp3::Deleter::operator()(mpg123_handle_struct* handle) const { mpg123_delete(handle); }

size_t id3v2_bytes(const std::filesystem::path& path) {
  const std::string head = bytes_at(path, 0, 10);
  if (head.size() < 10 || !head.starts_with("ID3")) return 0;
  size_t size = 0;
  for (size_t i = 6; i < 10; ++i) size = size << 7U | (static_cast<unsigned char>(head[i]) & 0x7fU);
  const bool has_footer = (static_cast<unsigned char>(head[5]) & 0x10U) != 0;
  return size + (has_footer ? 20 : 10);
}

bool begins_as_mp3(const std::filesystem::path& path) {
  return is_frame(bytes_at(path, id3v2_bytes(path), 2));
}

Mp3::Mp3(const std::filesystem::path& path) : path_(path) {
  static const int initialized = mpg123_init();
  RTFX_CHECK(initialized == MPG123_OK, "mpg123_init");
  int error = MPG123_OK;
  handle_.reset(mpg123_new(nullptr, &error));
  RTFX_CHECK(handle_ != nullptr, fmt::format("mpg123: {}", mpg123_plain_strerror(error)));
  mpg123_param(handle_.get(), MPG123_ADD_FLAGS,
               MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS | MPG123_SKIP_ID3V2, 0);
  mpg123_param(handle_.get(), MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0);
  mpg123_param(handle_.get(), MPG123_RVA, MPG123_RVA_OFF, 0);
  long rate = 0;
  int encoding = 0;
  if (mpg123_open(handle_.get(), path.c_str()) != MPG123_OK ||
      mpg123_getformat(handle_.get(), &rate, &channels_, &encoding) != MPG123_OK)
    refuse("not readable as audio: no MPEG frame");
  sample_rate_ = static_cast<int>(rate);
  // Behind the first frame, the next one is looked for up to the end.
  mpg123_param(handle_.get(), MPG123_RESYNC_LIMIT, -1, 0);
  if (tells_its_length(path, id3v2_bytes(path)))
    promised_ = static_cast<size_t>(std::max<off_t>(mpg123_length(handle_.get()), 0));
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
      refuse(fmt::format("corrupt behind byte {}: {}", end_, mpg123_strerror(handle_.get())));
    mpg123_frameinfo frame;
    mpg123_info(handle_.get(), &frame);
    const auto begin = static_cast<size_t>(mpg123_framepos(handle_.get()));
    if (begin >= end_) {
      check_gap(begin);
      end_ = begin + static_cast<size_t>(frame.framesize);
    }
    if (result == MPG123_NEW_FORMAT) take_format();
    if (count == 0) continue;  // The decoder's delay is cut off.
    const auto channels = static_cast<size_t>(channels_);
    std::vector<float> samples(count / sizeof(float));
    std::memcpy(samples.data(), bytes, samples.size() * sizeof(float));
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
  if (end_ == 0 || next == end_ || is_harmless(bytes_at(path_, end_, next - end_))) return;
  refuse(fmt::format("corrupt at byte {}: {} bytes are no MPEG frame", end_, next - end_));
}

void Mp3::check_end() const {
  const auto size = static_cast<size_t>(std::filesystem::file_size(path_));
  const auto frame = static_cast<size_t>(std::max(mpg123_spf(handle_.get()), 0));
  if (samples_ + frame < promised_ || is_frame(bytes_at(path_, end_, 2)))
    refuse(fmt::format("truncated or corrupt after sample {}, its header promises more", samples_));
  if (end_ < size) check_gap(size);
}

void Mp3::refuse(const std::string& problem) const {
  throw UserError(path_.string(), problem, "copy or convert the file again");
}

double Mp3::seconds() const {
  mpg123_scan(handle_.get());
  return static_cast<double>(mpg123_length(handle_.get())) / sample_rate_;
}

}  // namespace rtfx
