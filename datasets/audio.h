// Audio files as the models want them: mono, 16 kHz, float. Through libsndfile, mpg123 and
// soxr.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datasets/channels.h"

namespace rtfx {

struct Audio {
  std::vector<float> samples;        // mono; integer formats scaled to [-1, 1) (int16: by 1/32768)
  int sample_rate = 0;               // Hz
  std::vector<std::string> notices;  // what had to be changed: "mixed 2 channels to mono", ...

  double seconds() const { return static_cast<double>(samples.size()) / sample_rate; }
};

/// The whole file, resampled to `sample_rate`: the channel with that number, or with 0 the average
/// of all. Channels that cancel each other in that average give a notice. Throws UserError naming
/// the file, if it is missing, a directory or no audio. Throws it for a file that is truncated or
/// corrupt, or goes on behind the end that its header declares. Throws it for one without samples
/// ("empty audio"), or with a sample rate below 1 or above 768 kHz. Throws it for a sample that is
/// NaN, infinite or beyond 1e12, and names its index in the file. Throws it for a channel that the
/// file lacks.
Audio read_audio(const std::filesystem::path& path, int sample_rate = 16000, int channel = 0);

/// The number of channels, by the header. Throws as audio_seconds() does.
int audio_channels(const std::filesystem::path& path);

/// A part of a recording, in seconds.
struct AudioSegment {
  double offset = 0;   // of its begin
  double seconds = 0;  // its length; 0: up to the end
  int channel = 0;     // from 1 on; 0: the average of all
  int track = 0;       // of a container with several audio tracks, from 1 on; 0: the first

  bool operator==(const AudioSegment&) const = default;
};

/// Whether a segment is the whole of a recording of `seconds`. Lengths that differ by at most 0.05
/// s are taken as rounded.
bool is_whole(const AudioSegment& segment, double seconds);

/// Cuts `audio` to a segment of it. Nothing is cut from the end if is_whole() holds for the rest
/// behind the offset. A segment that is longer than that is a notice, and so is a part that is left
/// out of a recording whose offset is 0. Throws UserError(where) for a segment that begins behind
/// the end or has no sample.
void cut(Audio& audio, const AudioSegment& segment, const std::string& where);

/// Reads audio block by block, for files of hours.
class AudioReader {
 public:
  /// Throws as read_audio() does for a file that cannot be opened.
  explicit AudioReader(const std::filesystem::path& path, int sample_rate = 16000, int channel = 0);
  /// Reads a pipe as it delivers, in blocks of 50 ms. A `raw_rate` above 0 is the rate in Hz of 16
  /// bit mono samples without a header. With 0 the pipe holds a WAV file of PCM, floating point,
  /// A-law or mu-law, whose header may promise more than comes, or nothing. What follows the end
  /// that the header declares must be other chunks or zeros. `name` stands for the path in
  /// messages. The descriptor stays open. A byte of half a sample at the end is a notice.
  AudioReader(int descriptor, const std::string& name, int raw_rate, int sample_rate = 16000);
  ~AudioReader();

  /// The next `count` samples; fewer, or none, at the end of the file. Throws UserError where
  /// read_audio() would for what was read so far, and at the end for the whole file.
  std::vector<float> read(size_t count);

  /// Waits up to `milliseconds` for the next 50 ms of a pipe, so that reading them does not wait
  /// for long. Returns whether they are there, or the pipe's end; always true for a file.
  bool wait(int milliseconds) const;

  /// Samples before those that the next read() gives.
  size_t position() const;
  /// Whether go_to() leads to the samples that reading up to there leads to: uncompressed or
  /// lossless, of known length, at its own sample rate, and no pipe.
  bool any_order() const;
  /// Moves to a sample of the file or behind its end. Needs any_order().
  void go_to(size_t sample);

  /// Notices in the form of Audio::notices. At the end of the file, one may be added.
  const std::vector<std::string>& notices() const { return notices_; }
  int sample_rate() const { return sample_rate_; }
  /// The power of what was read since the last call.
  MixPower take_power();

 private:
  struct File;
  void start();

  std::unique_ptr<File> file_;
  int sample_rate_;
  std::vector<std::string> notices_;
};

/// Length in seconds by the header, of MP3 by the heads of all frames; 0 where the header does not
/// tell it (streamed FLAC).
/// Throws UserError as read_audio does for a file without a readable header.
double audio_seconds(const std::filesystem::path& path);

/// A long audio file that is read at several places at a time: one thread is slower than a GPU.
class ParallelAudio {
 public:
  /// Throws as AudioReader does.
  ParallelAudio(std::filesystem::path path, int sample_rate, size_t most_threads, int channel = 0);

  /// That may call read() at a time: `most_threads`, or one, in order, where the file has to be
  /// read so (AudioReader::any_order()).
  size_t threads() const { return threads_; }

  /// Samples [first, first + count); fewer only at the end. Throws as AudioReader::read() does,
  /// what concerns the end of the file where that is read.
  std::vector<float> read(size_t first, size_t count);

  /// Notices in the form of Audio::notices, with what concerns the parts that were read.
  std::vector<std::string> notices() const;

 private:
  std::unique_ptr<AudioReader> reader_at(size_t first);

  std::filesystem::path path_;
  int sample_rate_, channel_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<AudioReader>> free_;
  std::vector<std::string> notices_;
  MixPower power_;
  size_t threads_;
};

}  // namespace rtfx
