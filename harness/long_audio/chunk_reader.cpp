#include "harness/long_audio/chunk_reader.h"

#include <algorithm>
#include <utility>

#include "harness/long_audio/cuts.h"

namespace rtfx {
namespace {

constexpr size_t kChunksAhead = 2;  // that are read at once

}  // namespace

ChunkReader::ChunkReader(Read read, ChunkRule rule)
    : read_(std::move(read)), rule_(std::move(rule)) {
  read_ahead();
}

void ChunkReader::read_ahead() {
  ahead_ = std::async(std::launch::async, [this] {
    Piece piece;
    piece.samples = read_(kChunksAhead * rule_.most * rule_.block);
    piece.levels = block_levels(piece.samples, rule_.block);
    return piece;
  });
}

void ChunkReader::fill(size_t samples) {
  while (!ended_ && buffer_.size() < samples) {
    const Piece piece = ahead_.get();
    ended_ = piece.samples.empty();
    if (!ended_) read_ahead();
    samples_ += std::ssize(piece.samples);
    buffer_.insert(buffer_.end(), piece.samples.begin(), piece.samples.end());
    levels_.insert(levels_.end(), piece.levels.begin(), piece.levels.end());
  }
}

std::optional<AudioChunk> ChunkReader::next() {
  const size_t context = rule_.context * rule_.block;
  if (const size_t done = at_ - std::min(at_, context); done > buffer_.size() / 2) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(done));
    at_ -= done;
  }
  fill(at_ + rule_.most * rule_.block + context + 1);  // one more: the end is seen
  if (levels_.empty()) return std::nullopt;

  AudioChunk chunk;
  chunk.first = first_;
  chunk.behind_pause = after_pause_;
  const bool last = levels_.size() <= rule_.most;
  Cut cut{levels_.size(), false};
  if (!last) cut = best_cut(std::span(levels_).first(rule_.most), rule_.most / 2, rule_.most - 1);
  const auto own = levels_.begin() + static_cast<ptrdiff_t>(cut.block);
  chunk.levels.assign(levels_.begin(), own);
  levels_.erase(levels_.begin(), own);

  const size_t begin = at_ - std::min(at_, context);
  chunk.left = static_cast<int64_t>((at_ - begin) / rule_.block);
  at_ = std::min(buffer_.size(), at_ + cut.block * rule_.block);
  const size_t end = std::min(buffer_.size(), at_ + context);
  chunk.samples.assign(buffer_.begin() + static_cast<ptrdiff_t>(begin),
                       buffer_.begin() + static_cast<ptrdiff_t>(end));
  chunk.frames = static_cast<int64_t>(cut.block);
  if (last) {
    const int64_t encoded = rule_.encoded_frames(std::ssize(chunk.samples));
    chunk.frames = std::max<int64_t>(0, encoded - chunk.left);
  }
  after_pause_ = cut.pause;
  first_ += chunk.frames;
  return chunk;
}

std::vector<AudioChunk> ChunkReader::next(size_t count) {
  std::vector<AudioChunk> chunks;
  while (chunks.size() < count) {
    std::optional<AudioChunk> chunk = next();
    if (!chunk) break;
    chunks.push_back(std::move(*chunk));
  }
  return chunks;
}

}  // namespace rtfx
