// The samples of streams, and their mel frames, block by block. The frames are those of the whole
// utterances.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/acoustic_model.h"

namespace rtfx {

/// Keeps the samples of one stream as long as they are needed.
class StreamAudio {
 public:
  /// Fewer samples than these are not worth another thread.
  static constexpr int64_t kSamplesOfAThread = 1 << 16;

  /// Adds samples, in pieces of any size. There are none after finish().
  void push(std::span<const float> samples);
  void finish() { finished_ = true; }

  bool finished() const { return finished_; }
  /// Returns the number of samples so far, counted from the stream's begin.
  int64_t received() const { return first_ + static_cast<int64_t>(samples_.size()); }

  /// Copies samples from `first` on. Positions before the stream's begin and after the last
  /// received sample become zeros. Samples that were forgotten must not be requested.
  void copy(int64_t first, std::span<float> into) const;
  /// Says that samples before `first` are not needed any more. Their memory is given back from time
  /// to time.
  void forget(int64_t first);

 private:
  std::vector<float> samples_;
  int64_t first_ = 0;      // number of samples_.front() in the stream
  int64_t forgotten_ = 0;  // samples before this one may be deleted
  bool finished_ = false;
};

/// Computes the mel frames of streams. Frame t of an utterance depends on the n_fft samples around
/// sample t * hop. Only the begin and the end of an utterance are padded with silence. The
/// pre-emphasis crosses the borders of pieces.
///
/// Blocks are computed as one batch of a given shape. A block's frames therefore depend neither on
/// the pieces in which its samples came nor on other blocks. In tests on a CPU no bit differed. The
/// frames differ from the features of the whole utterance only in the order of the filterbank's
/// sums, which depends on the shape of the product. All earlier steps are equal bit for bit.
///
/// The model may normalise with numbers of its own (normalize: fixed_mean, fixed_std) or not at all
/// (NA). Normalisation over the utterance (per_feature, all_features) needs its end, so it is a
/// UserError. Buffered streams normalise over each buffer, as NeMo does.
class StreamFeatures {
 public:
  /// Computes features of blocks of `frames` frames.
  StreamFeatures(std::shared_ptr<const AcousticModel> model, int64_t frames);

  struct Block {
    const StreamAudio* audio;
    int64_t first;  // frame; may lie before the begin of the utterance
    int64_t end;    // frames from here on are zeros, like those before the begin
  };

  /// Computes at most `rows` blocks -> [rows, M, frames] float32 on the model's device. Rows
  /// without a block are zeros. On a GPU, it waits only for the copy of the samples.
  at::Tensor operator()(std::span<const Block> blocks, int64_t rows) const;

  /// Returns how many samples must have come before frames up to `end` can be computed, while more
  /// samples may follow.
  int64_t samples_for(int64_t end) const;
  /// Returns the first sample that a block from frame `first` on depends on.
  int64_t first_sample(int64_t first) const;

 private:
  std::shared_ptr<const AcousticModel> model_;
  int64_t frames_;
};

}  // namespace rtfx
