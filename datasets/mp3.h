// Decodes MPEG audio (MP3) to its end by libmpg123. libsndfile stops at the length that mpg123
// estimates at the start, and thus cuts a file whose bit rate varies.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/byte_range.h"
#include "datasets/channels.h"

struct mpg123_handle_struct;

namespace rtfx {

/// Returns whether `head` begins with a tag of ID3, APE or Lyrics3. Their names have up to
/// kTagBytes bytes.
bool begins_tag(std::string_view head);
inline constexpr size_t kTagBytes = 11;

/// Returns the bytes of an ID3v2 tag that follow its `head` of ten bytes.
size_t id3v2_size(const std::string& head);

/// Returns the bytes of the ID3v2 tags from byte `begin` of a file on, or 0 if there is none.
size_t id3v2_bytes(const std::filesystem::path& path, size_t begin = 0);

/// Returns whether a file begins like MPEG audio of layer I to III: with the header of a frame,
/// which may follow an ID3v2 tag.
bool begins_as_mp3(const std::filesystem::path& path);

/// Reads the frames of a file one by one. Files that were joined are read to the end of the last
/// one.
class Mp3 {
 public:
  /// Reads the frames in a range of the file's bytes, or in all of them. Throws UserError, and
  /// names the file, if they hold no MPEG audio.
  explicit Mp3(const std::filesystem::path& path, std::optional<ByteRange> range = {});
  Mp3(const Mp3&) = delete;
  Mp3& operator=(const Mp3&) = delete;

  int sample_rate() const { return sample_rate_; }  // Hz
  int channels() const { return channels_; }        // channels of the first frame

  /// Makes read() return the channel with that number. 0, the initial value, is the average of all.
  void choose(int channel) { channel_ = channel; }

  /// Returns the next samples, one for each frame of the channels, and none at the end. Throws
  /// UserError for a file that changes its sample rate. Throws for a damaged file and names the
  /// byte: bytes between its frames are neither a tag nor zeros. Throws for a truncated file: its
  /// last frame is cut, the range ends beyond the file, or the encoder's header declares more
  /// samples.
  std::vector<float> read();

  /// Says which of the samples read could not be decoded and are silent. The text is empty if there
  /// are none. mpg123 itself would write this to standard error, without the file's name.
  std::string notice() const;

  /// Returns the power of the samples read since the last call.
  MixPower take_power() { return std::exchange(power_, {}); }

  /// Returns the length in seconds. Reads the header of every frame, and decodes none. Must be
  /// called before read().
  double seconds() const;

 private:
  struct Deleter {
    void operator()(mpg123_handle_struct* handle) const;
  };
  /// The range of the file, which mpg123 reads as if it were a file.
  struct Bytes {
    std::unique_ptr<FILE, int (*)(FILE*)> file{nullptr, &std::fclose};
    size_t begin = 0, size = 0;
    bool is_cut = false;  // the range ends beyond the file

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
  /// Counts the silence that mpg123 inserts for frames that it cannot decode.
  void count_silence(const std::vector<float>& samples);

  std::filesystem::path path_;
  Bytes bytes_;
  std::unique_ptr<mpg123_handle_struct, Deleter> handle_;
  int sample_rate_ = 0, channels_ = 0;
  int channel_ = 0;
  MixPower power_;
  size_t promised_ = 0;  // samples that the encoder's header declares; 0 = it has none
  size_t samples_ = 0;   // read so far
  size_t end_ = 0;       // byte of the range after the last frame; 0 before the first
  size_t silent_ = 0, first_silent_ = 0;  // samples that could not be decoded; the first one
  bool was_loud_ = false;                 // whether the last sound before the frame was not silent
};

}  // namespace rtfx
