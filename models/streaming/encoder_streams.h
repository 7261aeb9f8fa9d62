// Encoding speech while it is spoken: samples in, encoder frames out, for many streams at a time.
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

/// The sizes of buffered streams in seconds; each is cut to whole encoder frames.
struct BufferSeconds {
  double chunk = 2, left = 10, right = 2;
};

/// Makes of a step, whose shapes and addresses stay the same, one that is enqueued at once, for
/// example as a CUDA graph. The step has run before; making it anew must not run it.
using StepRecorder = std::function<std::function<void()>(const std::function<void()>& step)>;

struct StreamOptions {
  int64_t streams = 1;  // that can be open at a time
  int64_t rows = 0;     // streams that a step encodes, at the most; 0 = all
  /// Smaller numbers of rows. A step is computed with the smallest that holds its streams, so that
  /// a few of them do not cost as much as all. Then frames are equal up to rounding alone.
  std::vector<int64_t> fewer_rows = {};
  /// Without: by caches, for models that are made for it. With: by the model's ordinary encoder,
  /// again and again on a buffer of audio, for all others.
  std::optional<BufferSeconds> buffer = std::nullopt;
  /// The attention context of cached streams: one of EncoderConfig::contexts, or another one of the
  /// same form (models/checkpoint/config.h). Empty selects the model's.
  std::vector<int64_t> att_context_size = {};
  /// Records the steps of cached streams on a GPU. Without one they are launched kernel by kernel.
  StepRecorder recorder = nullptr;
};

/// Further samples of an open stream at the model's rate, in [-1, 1].
struct NewSamples {
  int64_t stream;
  std::span<const float> samples;
};

/// The next frames of some streams, one row for each.
struct EncodedPieces {
  std::vector<int64_t> streams;  // in ascending order from the stream behind the last step's last
  at::Tensor frames;             // [rows, frames, D] in the encoder's dtype, on the model's device
  std::vector<int64_t> lengths;  // valid frames of each row; 0 is possible at a stream's end
  std::vector<bool> last;        // nothing comes of this stream any more: once for each stream
  int64_t computed_rows = 0;     // of the step, with those that have no stream

  bool empty() const { return streams.empty(); }
  /// [lengths[row], D], a view.
  at::Tensor row(size_t row) const;
};

/// A step is computed as a batch of a fixed shape. A stream's frames therefore do not depend on the
/// sizes of the pieces of its samples, on the time of finish(), or on the streams beside it. On a
/// CPU a test compares every bit. With StreamOptions::fewer_rows there are several shapes, which
/// round differently. One thread at a time may call. A stream that is not open, samples
/// behind its end, and samples that are no numbers are UserErrors.
class EncoderStreams {
 public:
  virtual ~EncoderStreams() = default;

  /// A new stream; returns its number, which no later one gets. `prompt`: what its frames are
  /// conditioned on, for models with prompts; without, PromptConfig::standard. Throws UserError
  /// where all are open, and for a model without a standard prompt. Does not wait for the device.
  int64_t open(std::optional<int64_t> prompt = std::nullopt);
  /// Further samples of each of these streams, or of none where one is refused. Kept on the host;
  /// nothing is computed. Threads of LibTorch's pool share the copying.
  void push(std::span<const NewSamples> all);
  void push(int64_t stream, std::span<const float> samples) {
    const NewSamples one{stream, samples};
    push(std::span(&one, 1));
  }
  /// No more samples will come. Its last frames come out of step().
  void finish(int64_t stream);
  /// Forgets the stream, at its end or in the middle.
  void close(int64_t stream);

  /// Whether step() has a chunk of the stream to encode, or its end to tell.
  bool waiting(int64_t stream) const;

  int64_t open_streams() const { return static_cast<int64_t>(streams_.size()); }
  /// Streams that can be opened beside them.
  int64_t free_streams() const { return static_cast<int64_t>(free_slots_.size()); }

  /// Encodes the next chunk of every stream that has one ready, or of so many of them as there are
  /// rows; those behind the last step's streams come first. Nothing where none is ready. On a GPU
  /// it does not wait for results.
  EncodedPieces step();

  /// Encoder frames of a row at the most.
  virtual int64_t most_frames() const = 0;
  /// Samples of one step of a stream, and those behind its chunk that it waits for.
  virtual int64_t chunk_samples() const = 0;
  virtual int64_t look_ahead_samples() const = 0;

 protected:
  struct Stream {
    StreamAudio audio;
    int64_t slot = 0;  // 0 to streams - 1
    int64_t prompt = 0;
    int64_t done = 0;   // mel frames (by caches) or samples (buffered) before the next chunk
    int64_t steps = 0;  // so far
    bool over = false;  // its last frames were given
  };
  using Rows = std::span<const std::pair<int64_t, Stream*>>;  // number and stream

  EncoderStreams(const StreamOptions& options, const PromptConfig& prompt, std::string where);
  /// The numbers of rows that steps are computed with, in ascending order.
  const std::vector<int64_t>& row_counts() const { return row_counts_; }

 private:
  /// The smallest of row_counts() that holds so many streams.
  int64_t rows_for(size_t streams) const;
  virtual bool ready(const Stream& stream) const = 0;
  /// The next chunks of streams that are ready, as a step of `computed` rows, which holds them.
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
