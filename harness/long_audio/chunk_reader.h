// Long audio, read and cut into chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <vector>

namespace rtfx {

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

class ChunkReader {
 public:
  /// The next `count` samples; fewer only at the end.
  using Read = std::function<std::vector<float>(size_t count)>;

  /// `read` is called by a thread at a time, for two chunks at once and as many ahead.
  ChunkReader(Read read, ChunkRule rule);
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  /// The next `count` chunks, one behind the other; fewer only at the end. Throws what `read`
  /// throws.
  std::vector<AudioChunk> next(size_t count);
  /// Read so far.
  int64_t samples() const { return samples_; }

 private:
  struct Piece {
    std::vector<float> samples, levels;  // all but the last: of whole blocks
  };

  void read_ahead();
  void fill(size_t samples);  // the buffer, as far as there are any
  std::optional<AudioChunk> next();

  Read read_;
  ChunkRule rule_;
  std::vector<float> buffer_;
  size_t at_ = 0;              // in it: where the next chunk begins
  std::vector<float> levels_;  // of the blocks from there on
  int64_t first_ = 0;          // the next chunk's first frame
  int64_t samples_ = 0;
  bool ended_ = false;  // the source is
  bool after_pause_ = true;
  std::future<Piece> ahead_;  // the last member: it uses others
};

}  // namespace rtfx
