// The samples of streams, and their mel frames, block by block, as the whole utterances would have
// them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/acoustic_model.h"

namespace rtfx {

/// The samples of one stream, as far as they are still needed.
class StreamAudio {
 public:
  /// Fewer samples than these are not worth another thread.
  static constexpr int64_t kSamplesOfAThread = 1 << 16;

  /// Further samples, in pieces of any size; none after finish().
  void push(std::span<const float> samples);
  void finish() { finished_ = true; }

  bool finished() const { return finished_; }
  /// Samples so far, counted from the stream's begin.
  int64_t received() const { return first_ + static_cast<int64_t>(samples_.size()); }

  /// Samples from `first` on; zeros before the stream's begin and behind what was received. What
  /// was forgotten must not be asked for.
  void copy(int64_t first, std::span<float> into) const;
  /// Samples before `first` are not asked for again. Their memory is given back now and then.
  void forget(int64_t first);

 private:
  std::vector<float> samples_;
  int64_t first_ = 0;      // which sample of the stream samples_.front() is
  int64_t forgotten_ = 0;  // samples before this one may go
  bool finished_ = false;
};

/// Computes the mel frames of streams. Frame t of an utterance is of the n_fft samples around
/// sample t * hop. Only the very begin and end are padded with silence, and the pre-emphasis goes
/// over the seams of pieces. Blocks are computed as one batch of a given shape. So a block's frames
/// depend neither on the pieces that its samples came in nor on the blocks beside it. In tests on a
/// CPU no bit differed. To the whole utterance's features they are equal up to the order of the
/// filterbank's sums, which is that of the product's shape; bit for bit until there.
///
/// normalize: NA (none) and with numbers of the model (fixed_mean, fixed_std): like that. What is
/// normalised over the utterance (per_feature, all_features) is not known before its end:
/// UserError. Buffered streams do that over each buffer, as NeMo does.
class StreamFeatures {
 public:
  /// Computes features of blocks of `frames` frames.
  StreamFeatures(std::shared_ptr<const AcousticModel> model, int64_t frames);

  struct Block {
    const StreamAudio* audio;
    int64_t first;  // frame; may lie before the utterance's begin
    int64_t end;    // frames at or behind it are zeros, as those before the begin
  };

  /// At most `rows` blocks -> [rows, M, frames] float32 on the model's device; rows without a block
  /// are zeros. On a GPU, does not wait but for the copy of the samples.
  at::Tensor operator()(std::span<const Block> blocks, int64_t rows) const;

  /// Samples that must have come before frames up to `end` can be computed while more may come.
  int64_t samples_for(int64_t end) const;
  /// The first sample that a block from frame `first` on looks at.
  int64_t first_sample(int64_t first) const;

 private:
  std::shared_ptr<const AcousticModel> model_;
  int64_t frames_;
};

}  // namespace rtfx
