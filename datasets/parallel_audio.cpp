#include "datasets/parallel_audio.h"

#include <algorithm>
#include <utility>

namespace rtfx {

ParallelAudio::ParallelAudio(std::filesystem::path path, int sample_rate, size_t most_threads)
    : path_(std::move(path)), sample_rate_(sample_rate) {
  free_.push_back(std::make_unique<AudioReader>(path_, sample_rate_));
  notices_ = free_.front()->notices();
  threads_ = free_.front()->any_order() ? most_threads : 1;
}

/// One that stands there if there is one, else any.
std::unique_ptr<AudioReader> ParallelAudio::reader_at(size_t first) {
  {
    const std::lock_guard lock(mutex_);
    auto found = std::ranges::find(free_, first, [](const auto& r) { return r->position(); });
    if (found == free_.end() && !free_.empty()) found = free_.begin();
    if (found != free_.end()) {
      std::unique_ptr<AudioReader> reader = std::move(*found);
      free_.erase(found);
      return reader;
    }
  }
  return std::make_unique<AudioReader>(path_, sample_rate_);
}

std::vector<float> ParallelAudio::read(size_t first, size_t count) {
  std::unique_ptr<AudioReader> reader = reader_at(first);
  if (reader->position() != first) reader->go_to(first);
  std::vector<float> samples = reader->read(count);
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(reader));
  return samples;
}

}  // namespace rtfx
