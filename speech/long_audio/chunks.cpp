#include "speech/long_audio/chunks.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "models/parallel.h"

namespace rtfx {

namespace {

constexpr float kPauseDepth = 25;  // dB below the loud blocks

float loud_level(std::span<const float> levels) {
  std::vector<float> sorted(levels.begin(), levels.end());
  const auto at = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() * 95 / 100);
  std::ranges::nth_element(sorted, at);
  return *at;
}

}  // namespace

Cut best_cut(std::span<const float> levels, size_t earliest, size_t latest) {
  const auto level = [&](size_t i) { return levels[std::min(i, levels.size() - 1)]; };
  const auto sum = [&](size_t i) { return level(i - 1) + level(i) + level(i + 1); };
  Cut cut{latest, false};
  for (size_t i = latest; i-- > earliest;)
    if (sum(i) < sum(cut.block)) cut.block = i;
  const float bound = loud_level(levels) - kPauseDepth;
  cut.pause =
      level(cut.block - 1) < bound && level(cut.block) < bound && level(cut.block + 1) < bound;
  return cut;
}

ChunkSource source_of(std::span<const float> samples, size_t threads) {
  return {[samples](size_t first, size_t count) {
            const auto left = samples.subspan(std::min(first, samples.size()));
            const auto part = left.first(std::min(count, left.size()));
            return std::vector<float>(part.begin(), part.end());
          },
          threads};
}

ChunkReader::ChunkReader(ChunkSource source, ChunkRule rule)
    : source_(std::move(source)), rule_(std::move(rule)), piece_(2 * rule_.most * rule_.block) {
  read_ahead();
}

void ChunkReader::read_ahead() {
  while (ahead_.size() < source_.threads) {
    ahead_.push_back(std::async(std::launch::async, [this, first = piece_ * asked_++] {
      Piece piece;
      piece.samples = source_.read(first, piece_);
      piece.levels = block_levels(piece.samples, rule_.block);
      return piece;
    }));
  }
}

void ChunkReader::take() {
  Piece piece = ahead_.front().get();
  ahead_.pop_front();
  ended_ = piece.samples.size() < piece_;
  if (!ended_) read_ahead();
  end_ += piece.samples.size();
  levels_.insert(levels_.end(), piece.levels.begin(), piece.levels.end());
  pieces_.push_back(std::move(piece));
}

/// Returns the next chunk without its samples. `range` receives the range of the samples.
std::optional<AudioChunk> ChunkReader::cut(Range& range) {
  const size_t context = rule_.context * rule_.block;
  const size_t needed = at_ + rule_.most * rule_.block + context + 1;  // one more shows the end
  while (!ended_ && end_ < needed) take();
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

  range.begin = at_ - std::min(at_, context);
  chunk.left = static_cast<int64_t>((at_ - range.begin) / rule_.block);
  at_ = std::min(end_, at_ + cut.block * rule_.block);
  range.end = std::min(end_, at_ + context);
  chunk.frames = static_cast<int64_t>(cut.block);
  if (last) {
    const int64_t encoded = rule_.encoded_frames(static_cast<int64_t>(range.end - range.begin));
    chunk.frames = std::max<int64_t>(0, encoded - chunk.left);
  }
  after_pause_ = cut.pause;
  first_ += chunk.frames;
  return chunk;
}

void ChunkReader::copy(const Range& range, std::vector<float>& to) const {
  to.reserve(range.end - range.begin);
  for (size_t at = range.begin; at < range.end; at = range.begin + to.size()) {
    const std::vector<float>& piece = pieces_[(at - begin_) / piece_].samples;
    const auto from = std::span(piece).subspan((at - begin_) % piece_);
    const auto part = from.first(std::min(from.size(), range.end - at));
    to.insert(to.end(), part.begin(), part.end());
  }
}

std::vector<AudioChunk> ChunkReader::next(size_t count) {
  std::vector<AudioChunk> chunks;
  std::vector<Range> ranges;
  while (chunks.size() < count) {
    Range range{};
    std::optional<AudioChunk> chunk = cut(range);
    if (!chunk) break;
    chunks.push_back(std::move(*chunk));
    ranges.push_back(range);
  }
  parallel_ranges(std::ssize(chunks), [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      copy(ranges[i], chunks[i].samples);
  });
  const size_t context = rule_.context * rule_.block;
  while (!pieces_.empty() && begin_ + piece_ + context <= at_) {
    pieces_.pop_front();
    begin_ += piece_;
  }
  return chunks;
}

}  // namespace rtfx
