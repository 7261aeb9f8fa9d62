// A long audio file, read at several places at a time: one thread is slower than a GPU.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datasets/audio.h"

namespace rtfx {

class ParallelAudio {
 public:
  /// Throws as AudioReader does.
  ParallelAudio(std::filesystem::path path, int sample_rate, size_t most_threads);

  /// That may call read() at a time: `most_threads`, or one, in order, where the file has to be
  /// read so (AudioReader::any_order()).
  size_t threads() const { return threads_; }

  /// Samples [first, first + count); fewer only at the end. Throws as AudioReader::read() does,
  /// what concerns the end of the file where that is read.
  std::vector<float> read(size_t first, size_t count);

  /// Notices in the form of Audio::notices.
  const std::vector<std::string>& notices() const { return notices_; }

 private:
  std::unique_ptr<AudioReader> reader_at(size_t first);

  std::filesystem::path path_;
  int sample_rate_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<AudioReader>> free_;
  std::vector<std::string> notices_;
  size_t threads_;
};

}  // namespace rtfx
