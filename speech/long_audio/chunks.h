// Reads long audio and cuts it into chunks, in pauses of speech where there are any.
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

/// Says which recordings are cut into chunks, and how long chunks are.
struct Cuts {
  double long_above = 600;     // seconds; longer recordings are cut
  double chunk_seconds = 20;   // the maximum; a chunk except the last has at least half
  double context_seconds = 1;  // context on either side
};

struct Cut {
  size_t block = 0;    // the first one after the cut
  bool pause = false;  // nobody speaks there
};

/// Returns the quietest place in [earliest, latest] of blocks with these levels. It is the middle
/// of the three blocks with the least sum. Of equal places, the latest counts. It is a pause if all
/// three blocks are 25 dB below the loud blocks (95th percentile of all). 1 <= earliest <= latest
/// <= levels.size() must hold.
Cut best_cut(std::span<const float> levels, size_t earliest, size_t latest);

/// Frames [first, first + frames) of the audio.
struct AudioChunk {
  int64_t first = 0, frames = 0;
  std::vector<float> samples;  // own samples and contexts
  int64_t left = 0;            // frames of the left context
  std::vector<float> levels;   // block_levels() of its own frames
  bool behind_pause = true;    // also true at the start of the audio
};

/// Says how audio is cut. A block is the samples of one encoder frame.
struct ChunkRule {
  size_t block = 0;    // samples
  size_t most = 0;     // blocks of a chunk, at least 2; a chunk except the last has at least half
  size_t context = 0;  // blocks on either side, fewer at the ends of the audio
  std::function<int64_t(int64_t samples)> encoded_frames;  // of a chunk with contexts
};

/// The origin of samples.
struct ChunkSource {
  /// Returns samples [first, first + count), and fewer only at the end.
  std::function<std::vector<float>(size_t first, size_t count)> read;
  size_t threads = 1;  // threads that may call read() at a time; a single one calls it in order
};

/// Returns a source that reads `samples`, which must outlive it.
ChunkSource source_of(std::span<const float> samples, size_t threads = 1);

class ChunkReader {
 public:
  /// Reads the samples of two chunks ahead for each of source.threads.
  ChunkReader(ChunkSource source, ChunkRule rule);
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  /// Returns the next `count` consecutive chunks, and fewer only at the end. Throws what `read`
  /// throws.
  std::vector<AudioChunk> next(size_t count);
  /// Returns the number of samples read so far.
  int64_t samples() const { return static_cast<int64_t>(end_); }

 private:
  struct Piece {
    std::vector<float> samples, levels;  // the last piece may have fewer than piece_ samples
  };
  struct Range {
    size_t begin, end;  // samples
  };

  void read_ahead();
  void take();  // takes the next piece
  std::optional<AudioChunk> cut(Range& range);
  void copy(const Range& range, std::vector<float>& to) const;

  ChunkSource source_;
  ChunkRule rule_;
  size_t piece_;                // samples that are read at once
  std::deque<Piece> pieces_;    // pieces from which chunks are still cut
  size_t begin_ = 0, end_ = 0;  // samples of the pieces: [begin_, end_)
  size_t at_ = 0;               // the sample at which the next chunk begins
  std::vector<float> levels_;   // levels of the blocks from at_ to end_
  int64_t first_ = 0;           // first frame of the next chunk
  bool ended_ = false;          // the source has ended
  bool after_pause_ = true;
  size_t asked_ = 0;                      // pieces requested so far
  std::deque<std::future<Piece>> ahead_;  // must be the last member: they use others
};

}  // namespace rtfx
