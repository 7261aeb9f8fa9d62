// MPEG audio (MP3), decoded to its end by libmpg123. libsndfile stops at the length that mpg123
// estimates at the start, and cuts a file whose bit rate varies.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datasets/channels.h"

struct mpg123_handle_struct;

namespace rtfx {

/// Bytes of the ID3v2 tag at the begin of a file; 0 if there is none.
size_t id3v2_bytes(const std::filesystem::path& path);

/// Whether a file begins as MPEG audio of layer I to III does: with the head of a frame, perhaps
/// behind an ID3v2 tag.
bool begins_as_mp3(const std::filesystem::path& path);

/// Reads the frames of a file one by one. Files that were joined are read to the end of the last.
class Mp3 {
 public:
  /// Throws UserError naming the file, if it holds no MPEG audio.
  explicit Mp3(const std::filesystem::path& path);

  int sample_rate() const { return sample_rate_; }  // Hz
  int channels() const { return channels_; }        // of the first frame

  /// Makes read() give the channel with that number; 0, as at first: the average of all.
  void choose(int channel) { channel_ = channel; }

  /// The next samples, one for each frame of the channels; none at the end. Throws UserError for a
  /// file that changes its sample rate. Throws it for one that is damaged, naming the byte: between
  /// its frames are bytes that are neither a tag nor zeros. Throws it for one that is truncated:
  /// its last frame is cut, or the header of the encoder says more samples.
  std::vector<float> read();

  /// The power of what was read since the last call.
  MixPower take_power() { return std::exchange(power_, {}); }

  /// Length in seconds. Reads the head of every frame, and decodes none. Call it before read().
  double seconds() const;

 private:
  struct Deleter {
    void operator()(mpg123_handle_struct* handle) const;
  };

  void take_format();
  [[noreturn]] void refuse(const std::string& problem) const;
  /// Checks the bytes between the last frame and `next`.
  void check_gap(size_t next) const;
  void check_end() const;

  std::filesystem::path path_;
  std::unique_ptr<mpg123_handle_struct, Deleter> handle_;
  int sample_rate_ = 0, channels_ = 0;
  int channel_ = 0;
  MixPower power_;
  size_t promised_ = 0;  // samples, by the header of the encoder; 0: it has none
  size_t samples_ = 0;   // read so far
  size_t end_ = 0;       // byte behind the last frame; 0 before the first
};

}  // namespace rtfx
