// Long audio, read and cut into chunks: in pauses of speech, as far as there are any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "speech/pipeline/wordless_speech.h"

namespace rtfx {

struct Cut {
  size_t block = 0;    // the first behind the cut
  bool pause = false;  // nobody speaks there
};

/// The quietest place in [earliest, latest] of blocks with these levels: the middle of the three
/// blocks with the least sum; the latest such place of equals. It is a pause if all three are
/// `depth` dB below the loud blocks (95th percentile of all). 1 <= earliest <= latest <=
/// levels.size().
Cut best_cut(std::span<const float> levels, size_t earliest, size_t latest, float depth = 25);

/// Frames [first, first + frames) of the audio.
struct AudioChunk {
  int64_t first = 0, frames = 0;
  std::vector<float> samples;  // with the contexts
  int64_t left = 0;            // frames of the left context
  std::vector<float> levels;   // of its own frames, block_levels()
  bool behind_pause = true;    // or at the start of the audio
};

/// How audio is cut. A block is what the encoder makes one frame of.
struct ChunkRule {
  size_t block = 0;  // samples
  size_t most = 0;   // blocks of a chunk, at least 2; a chunk but the last has at least half of it
  size_t context = 0;  // blocks on either side, where there are so many
  std::function<int64_t(int64_t samples)> encoded_frames;  // of the last chunk with its context
};

/// Where samples come from.
struct ChunkSource {
  /// Samples [first, first + count); fewer only at the end.
  std::function<std::vector<float>(size_t first, size_t count)> read;
  size_t threads = 1;  // that may call it at a time; one calls it in order
};

/// A source that reads `samples`, which must outlive it.
ChunkSource source_of(std::span<const float> samples, size_t threads = 1);

class ChunkReader {
 public:
  /// Reads ahead the samples of two chunks for each of source.threads.
  ChunkReader(ChunkSource source, ChunkRule rule);
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  /// The next `count` chunks, one behind the other; fewer only at the end. Throws what `read`
  /// throws.
  std::vector<AudioChunk> next(size_t count);
  /// Read so far.
  int64_t samples() const { return static_cast<int64_t>(end_); }

 private:
  struct Piece {
    std::vector<float> samples, levels;  // all but the last: of piece_ samples
  };
  struct Range {
    size_t begin, end;  // samples
  };

  void read_ahead();
  void take();  // the next piece
  std::optional<AudioChunk> cut(Range& range);
  void copy(const Range& range, std::vector<float>& to) const;

  ChunkSource source_;
  ChunkRule rule_;
  size_t piece_;                // samples that are read at once
  std::deque<Piece> pieces_;    // that chunks are still cut from
  size_t begin_ = 0, end_ = 0;  // their samples: [begin_, end_)
  size_t at_ = 0;               // sample: where the next chunk begins
  std::vector<float> levels_;   // of the blocks from there to end_
  int64_t first_ = 0;           // the next chunk's first frame
  bool ended_ = false;          // the source is
  bool after_pause_ = true;
  size_t asked_ = 0;                      // pieces
  std::deque<std::future<Piece>> ahead_;  // the last member: they use others
};

}  // namespace rtfx
