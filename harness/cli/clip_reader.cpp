#include "harness/cli/clip_reader.h"

#include <utility>

namespace rtfx {

ClipReader::ClipReader(const std::vector<TranscribeInput>& files, size_t readers,
                       std::function<Clip(const TranscribeInput&)> read)
    : files_(files), readers_(readers), read_(std::move(read)) {}

Clip ClipReader::next() {
  for (; ahead_.size() < readers_ && started_ < files_.size(); ++started_)
    ahead_.push_back(std::async([this, &file = files_[started_]] { return read_(file); }));
  ++taken_;
  if (back_) return *std::exchange(back_, std::nullopt);
  std::future<Clip> next = std::move(ahead_.front());
  ahead_.pop_front();
  return next.get();
}

void ClipReader::put_back(Clip clip) {
  --taken_;
  back_ = std::move(clip);
}

}  // namespace rtfx
