#include "datasets/parallel_audio.h"

#include <algorithm>
#include <utility>

namespace rtfx {

ParallelAudio::ParallelAudio(std::filesystem::path path, int sample_rate, size_t most_threads,
                             int channel)
    : path_(std::move(path)), sample_rate_(sample_rate), channel_(channel) {
  free_.push_back(std::make_unique<AudioReader>(path_, sample_rate_, channel_));
  notices_ = free_.front()->notices();
  threads_ = free_.front()->any_order() ? most_threads : 1;
}

/// Returns a reader that is at this place if there is one, else any reader.
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
  return std::make_unique<AudioReader>(path_, sample_rate_, channel_);
}

std::vector<std::string> ParallelAudio::notices() const {
  std::vector<std::string> all = notices_;
  if (power_.cancels()) all.push_back(MixPower::notice());
  return all;
}

std::vector<float> ParallelAudio::read(size_t first, size_t count) {
  std::unique_ptr<AudioReader> reader = reader_at(first);
  if (reader->position() != first) reader->go_to(first);
  std::vector<float> samples = reader->read(count);
  const std::lock_guard lock(mutex_);
  power_ += reader->take_power();
  for (const std::string& notice : reader->notices()) {
    // notices() judges the mix by the power that all readers have measured.
    const bool is_new = std::ranges::find(notices_, notice) == notices_.end();
    if (is_new && notice != MixPower::notice()) notices_.push_back(notice);
  }
  free_.push_back(std::move(reader));
  return samples;
}

}  // namespace rtfx
