// Encodes speech while it is spoken: samples in, encoder frames out, for many streams at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/acoustic_model.h"
#include "models/streaming/stream_features.h"

namespace rtfx {

/// The sizes of buffered streams in seconds. Each is rounded down to whole encoder frames.
struct BufferSeconds {
  double chunk = 2, left = 10, right = 2;
};

/// Makes a function that enqueues a step at once, for example as a CUDA graph. The shapes and
/// addresses of the step stay the same. The step has run before, and the recording must not run it.
using StepRecorder = std::function<std::function<void()>(const std::function<void()>& step)>;

struct StreamOptions {
  int64_t streams = 1;  // streams that can be open at a time
  int64_t rows = 0;     // the most streams that a step encodes; 0 = all
  /// Smaller numbers of rows. A step is computed with the smallest number that holds its streams,
  /// so that few streams cost less than all. Frames are then equal only up to rounding.
  std::vector<int64_t> fewer_rows = {};
  /// Without it, streams use caches, for models that are made for them. With it, the model's
  /// ordinary encoder runs again and again on a buffer of audio, which works for all other models.
  std::optional<BufferSeconds> buffer = std::nullopt;
  /// The attention context of cached streams. It is one of EncoderConfig::contexts, or another one
  /// of the same form (models/checkpoint/config.h). An empty list selects the model's context.
  std::vector<int64_t> att_context_size = {};
  /// Records the steps of cached streams on a GPU. Without it, they are launched kernel by kernel.
  StepRecorder recorder = nullptr;
};

/// Further samples of an open stream at the model's rate, in [-1, 1].
struct NewSamples {
  int64_t stream;
  std::span<const float> samples;
};

/// The next frames of some streams, one row for each.
struct EncodedPieces {
  std::vector<int64_t> streams;  // ascending, from the one after the last step's last stream on
  at::Tensor frames;             // [rows, frames, D] in the encoder's dtype, on the model's device
  std::vector<int64_t> lengths;  // valid frames of each row; 0 is possible at a stream's end
  std::vector<bool> last;        // nothing more comes of this stream; true once for each stream
  int64_t computed_rows = 0;     // rows of the step, including those without a stream

  bool empty() const { return streams.empty(); }
  /// Returns the frames of a row, [lengths[row], D], as a view.
  at::Tensor row(size_t row) const;
};

/// Encodes many streams. A step is computed as a batch of a fixed shape. A stream's frames
/// therefore depend neither on how its samples were cut into pieces, nor on the time of finish(),
/// nor on other streams. On a CPU, a test compares every bit. With StreamOptions::fewer_rows there
/// are several shapes, which round differently. Only one thread at a time may call. Throws
/// UserError for a stream that is not open, for samples after its end, and for samples that are NaN
/// or infinite.
class EncoderStreams {
 public:
  virtual ~EncoderStreams() = default;

  /// Opens a stream and returns its number, which no later stream gets. `prompt` conditions its
  /// frames, for models with prompts. Without it, PromptConfig::standard holds. Throws UserError
  /// where all streams are open, or where the model has prompts but no standard one. Does not wait
  /// for the device.
  int64_t open(std::optional<int64_t> prompt = std::nullopt);
  /// Adds samples to each of these streams, or to none where one is refused. The samples stay on
  /// the host, and nothing is computed. Threads of LibTorch's pool share the copying.
  void push(std::span<const NewSamples> all);
  void push(int64_t stream, std::span<const float> samples) {
    const NewSamples one{stream, samples};
    push(std::span(&one, 1));
  }
  /// Says that no more samples will come. step() then returns the stream's last frames.
  void finish(int64_t stream);
  /// Forgets the stream, whether it has ended or not.
  void close(int64_t stream);

  /// Returns whether step() has a chunk of the stream to encode, or its end to report.
  bool waiting(int64_t stream) const;

  /// Returns how many more streams can be opened.
  int64_t free_streams() const { return static_cast<int64_t>(free_slots_.size()); }

  /// Encodes the next chunk of every stream that has one ready, up to the number of rows. Streams
  /// after those of the last step come first. The result is empty where no chunk is ready. On a
  /// GPU, it does not wait for results.
  EncodedPieces step();

  /// Returns the largest number of encoder frames of a row.
  virtual int64_t most_frames() const = 0;
  /// Returns the number of samples of one step of a stream, and of those after its chunk that it
  /// waits for.
  virtual int64_t chunk_samples() const = 0;
  virtual int64_t look_ahead_samples() const = 0;

 protected:
  struct Stream {
    StreamAudio audio;
    int64_t slot = 0;  // 0 to streams - 1
    int64_t prompt = 0;
    int64_t done = 0;   // mel frames (by caches) or samples (buffered) before the next chunk
    int64_t steps = 0;  // steps so far
    bool over = false;  // its last frames were returned
  };
  using Rows = std::span<const std::pair<int64_t, Stream*>>;  // number and stream

  EncoderStreams(const StreamOptions& options, const PromptConfig& prompt, std::string where);
  /// Returns the numbers of rows that steps are computed with, in ascending order.
  const std::vector<int64_t>& row_counts() const { return row_counts_; }

 private:
  /// Returns the smallest of row_counts() that holds `streams` streams.
  int64_t rows_for(size_t streams) const;
  virtual bool ready(const Stream& stream) const = 0;
  /// Encodes the next chunks of streams that are ready, in a step of `computed` rows. There are
  /// enough rows for all.
  virtual EncodedPieces encode(Rows rows, int64_t computed) = 0;
  virtual void opened(int64_t slot) = 0;

  Stream& find(int64_t stream);
  const Stream& find(int64_t stream) const;

  std::string where_;
  PromptConfig prompt_;
  std::vector<int64_t> row_counts_;
  std::map<int64_t, Stream> streams_;
  std::vector<int64_t> free_slots_;
  int64_t next_ = 0;  // number of the next stream
  int64_t last_served_ = -1;
};

/// Returns streams over a model: buffered ones where `options.buffer` asks for them, else streams
/// with caches. Throws UserError where the options do not fit the model. why_not_cache_aware()
/// (cached_encoder.h) says which models cannot stream with caches.
std::unique_ptr<EncoderStreams> make_encoder_streams(std::shared_ptr<const AcousticModel> model,
                                                     const StreamOptions& options);

}  // namespace rtfx
