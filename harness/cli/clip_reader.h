// The files of `rtfx transcribe`, read ahead of the model.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "datasets/audio.h"
#include "harness/cli/transcribe_inputs.h"

namespace rtfx {

struct Clip {
  const TranscribeInput* input = nullptr;
  Audio audio;           // not yet read where the header says that it is long
  bool is_long = false;  // to be transcribed block by block
};

/// In the order of the files, for one thread.
class ClipReader {
 public:
  /// `read`: a file, by any thread; throws what is wrong with it. `readers` of them at a time: one
  /// thread reads 4,000 times as fast as the audio lasts, which is less than a GPU takes. `files`
  /// must outlive this.
  ClipReader(const std::vector<TranscribeInput>& files, size_t readers,
             std::function<Clip(const TranscribeInput&)> read);

  /// Files that next() has given, or thrown for.
  size_t taken() const { return taken_; }
  bool more() const { return taken_ < files_.size(); }
  /// What next() is about.
  const TranscribeInput& file() const { return files_[taken_]; }
  Clip next();
  /// The last clip of next() is the next one once more.
  void put_back(Clip clip);

 private:
  const std::vector<TranscribeInput>& files_;
  size_t readers_;
  std::function<Clip(const TranscribeInput&)> read_;
  size_t taken_ = 0, started_ = 0;
  std::optional<Clip> back_;             // files_[taken_], where it was put back
  std::deque<std::future<Clip>> ahead_;  // those up to files_[started_ - 1]
};

}  // namespace rtfx
