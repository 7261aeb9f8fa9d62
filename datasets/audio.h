// Reads audio files in the form that models need: mono, 16 kHz, float. Uses libsndfile, mpg123 and
// soxr.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/channels.h"

namespace rtfx {

struct Audio {
  std::vector<float> samples;        // mono; integer formats scaled to [-1, 1) (int16: by 1/32768)
  int sample_rate = 0;               // Hz
  std::vector<std::string> notices;  // changes: "mixed 2 channels to mono", ...

  double seconds() const { return static_cast<double>(samples.size()) / sample_rate; }
};

/// The sample rate of models in Hz, to which audio is resampled unless a caller wants another one.
inline constexpr int kSampleRate = 16000;

/// Reads the whole file and resamples it to `sample_rate`. Returns the channel with that number, or
/// with 0 the average of all. Channels that cancel each other in the average give a notice.
///
/// Throws UserError, and names the file, in these cases:
///   - It is missing, a directory or no audio.
///   - It is truncated or corrupt, or goes on after the end that its header declares.
///   - It has no samples ("empty audio"), or a sample rate below 1 kHz or above 768 kHz.
///   - A sample is NaN, infinite or beyond 1e12. The message has its index in the file.
///   - It lacks the channel.
Audio read_audio(const std::filesystem::path& path, int sample_rate = kSampleRate, int channel = 0);

/// Returns the number of channels that the header declares. Throws as audio_seconds() does.
int audio_channels(const std::filesystem::path& path);

/// A part of a recording, in seconds.
struct AudioSegment {
  double offset = 0;   // begin of the part
  double seconds = 0;  // length; 0 = up to the end
  int channel = 0;     // from 1 on; 0 = the average of all
  int track = 0;       // audio track of a container with several, from 1 on; 0 = the first

  bool operator==(const AudioSegment&) const = default;
};

/// Returns whether a segment is the whole of a recording of `seconds`. Lengths that differ by at
/// most 0.05 s are taken as rounded, and count as equal.
bool is_whole(const AudioSegment& segment, double seconds);

/// Cuts `audio` to a segment of it. Nothing is cut from the end if is_whole() holds for the rest
/// after the offset. A segment that is longer than this rest gives a notice. So does a part that is
/// left out of a recording whose offset is 0. Throws UserError(where) for a segment that begins
/// after the end or has no sample.
void cut(Audio& audio, const AudioSegment& segment, const std::string& where);

/// Reads audio block by block, for files of hours.
class AudioReader {
 public:
  /// Throws as read_audio() does for a file that cannot be opened.
  explicit AudioReader(const std::filesystem::path& path, int sample_rate = kSampleRate,
                       int channel = 0);
  /// Reads a pipe while it delivers, in blocks of 50 ms. A `raw_rate` above 0 is the rate in Hz of
  /// 16 bit mono samples without a header. With 0 the pipe holds a WAV file of PCM, floating point,
  /// A-law or mu-law. Its header may declare more samples than come, or no number. Only other
  /// chunks or zeros may follow the end that the header declares. Messages use `name` instead of
  /// the path. The descriptor stays open. A byte of half a sample at the end gives a notice.
  AudioReader(int descriptor, const std::string& name, int raw_rate, int sample_rate = kSampleRate);
  ~AudioReader();

  /// Returns the next `count` samples, and fewer, or none, only at the end of the file. Throws
  /// UserError where read_audio() would for the part read so far, and at the end for the whole
  /// file.
  std::vector<float> read(size_t count);

  /// Waits up to `milliseconds` for the next 50 ms of a pipe, so that reading them takes no long
  /// wait. Returns whether they are there, or the pipe has ended. Always returns true for a file.
  bool wait(int milliseconds) const;

  /// Returns the number of samples before those of the next read().
  size_t position() const;
  /// Returns whether go_to() and reading up to a place lead to the same samples. This holds for an
  /// uncompressed or lossless file of known length at its own sample rate, and not for a pipe.
  bool any_order() const;
  /// Moves to a sample of the file, or past its end. Requires any_order().
  void go_to(size_t sample);

  /// Returns notices in the form of Audio::notices. At the end of the file, one may be added.
  const std::vector<std::string>& notices() const { return notices_; }
  int sample_rate() const { return sample_rate_; }
  /// Returns the power of the samples read since the last call.
  MixPower take_power();

 private:
  struct File;
  void start();

  std::unique_ptr<File> file_;
  int sample_rate_;
  std::vector<std::string> notices_;
};

/// Returns the length in seconds, by the header, or for MP3 by the headers of all frames. Returns 0
/// where the header does not state it (streamed FLAC). Throws UserError as read_audio() does for a
/// file without a readable header.
double audio_seconds(const std::filesystem::path& path);

}  // namespace rtfx
