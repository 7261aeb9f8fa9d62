// MPEG audio (MP3), decoded to its end by libmpg123. libsndfile stops at the length that mpg123
// estimates at the start, and cuts a file whose bit rate varies.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/byte_range.h"
#include "datasets/channels.h"

struct mpg123_handle_struct;

namespace rtfx {

/// Bytes of an ID3v2 tag behind its `head` of ten bytes.
size_t id3v2_size(const std::string& head);

/// Bytes of the ID3v2 tags from byte `begin` of a file on; 0 if there is none.
size_t id3v2_bytes(const std::filesystem::path& path, size_t begin = 0);

/// Whether a file begins as MPEG audio of layer I to III does: with the head of a frame, perhaps
/// behind an ID3v2 tag.
bool begins_as_mp3(const std::filesystem::path& path);

/// Reads the frames of a file one by one. Files that were joined are read to the end of the last.
class Mp3 {
 public:
  /// Reads the frames in a range of the file's bytes, or in all of them. Throws UserError naming
  /// the file, if they hold no MPEG audio.
  explicit Mp3(const std::filesystem::path& path, std::optional<ByteRange> range = {});
  Mp3(const Mp3&) = delete;
  Mp3& operator=(const Mp3&) = delete;

  int sample_rate() const { return sample_rate_; }  // Hz
  int channels() const { return channels_; }        // of the first frame

  /// Makes read() give the channel with that number; 0, as at first: the average of all.
  void choose(int channel) { channel_ = channel; }

  /// The next samples, one for each frame of the channels; none at the end. Throws UserError for a
  /// file that changes its sample rate. Throws it for one that is damaged, naming the byte: between
  /// its frames are bytes that are neither a tag nor zeros. Throws it for one that is truncated:
  /// its last frame is cut, the range ends behind the file, or the header of the encoder says more
  /// samples.
  std::vector<float> read();

  /// Says what of the samples that were read could not be decoded and is silent; empty if nothing.
  /// mpg123 itself would write this to standard error, without the file's name.
  std::string notice() const;

  /// The power of what was read since the last call.
  MixPower take_power() { return std::exchange(power_, {}); }

  /// Length in seconds. Reads the head of every frame, and decodes none. Call it before read().
  double seconds() const;

 private:
  struct Deleter {
    void operator()(mpg123_handle_struct* handle) const;
  };
  /// The range of the file, which mpg123 reads as if it were a file.
  struct Bytes {
    std::unique_ptr<FILE, int (*)(FILE*)> file{nullptr, &std::fclose};
    size_t begin = 0, size = 0;
    bool is_cut = false;  // The range ends behind the file.

    /// The callbacks of mpg123, whose user data points to this object.
    static ssize_t read(void* data, void* to, size_t count);
    static off_t seek(void* data, off_t offset, int whence);
  };

  std::string bytes_at(size_t begin, size_t count) const;
  void take_format();
  [[noreturn]] void refuse(const std::string& problem) const;
  /// Checks the bytes between the last frame and `next`.
  void check_gap(size_t next) const;
  void check_end() const;
  /// Counts the silence that mpg123 puts in place of what it cannot decode.
  void count_silence(const std::vector<float>& samples);

  std::filesystem::path path_;
  Bytes bytes_;
  std::unique_ptr<mpg123_handle_struct, Deleter> handle_;
  int sample_rate_ = 0, channels_ = 0;
  int channel_ = 0;
  MixPower power_;
  size_t promised_ = 0;  // samples, by the header of the encoder; 0: it has none
  size_t samples_ = 0;   // read so far
  size_t end_ = 0;       // byte of the range behind the last frame; 0 before the first
  size_t silent_ = 0, first_silent_ = 0;  // samples that could not be decoded; the first one
  bool was_loud_ = false;                 // the last sound before the frame
};

}  // namespace rtfx
