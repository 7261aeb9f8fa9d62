// Reads long audio on several threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datasets/audio.h"
#include "datasets/channels.h"

namespace rtfx {

/// Reads a long audio file at several places at a time, because one thread is slower than a GPU.
class ParallelAudio {
 public:
  /// Throws as AudioReader does.
  ParallelAudio(std::filesystem::path path, int sample_rate, size_t most_threads, int channel = 0);

  /// Returns how many threads may call read() at a time. This is `most_threads`, or one, in order,
  /// where the file has to be read in order (AudioReader::any_order()).
  size_t threads() const { return threads_; }

  /// Returns samples [first, first + count), and fewer only at the end. Throws as
  /// AudioReader::read() does. Errors about the end of the file are thrown where the end is read.
  std::vector<float> read(size_t first, size_t count);

  /// Returns notices in the form of Audio::notices, for the parts that were read.
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
