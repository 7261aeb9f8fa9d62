// Mel frames of streams, block by block, as the whole utterances would have them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "models/acoustic_model.h"
#include "models/streaming/stream_audio.h"

namespace rtfx {

/// Frame t of an utterance is of the n_fft samples around sample t * hop. Only the very begin and
/// end are padded with silence, and the pre-emphasis goes over the seams of pieces. Blocks are
/// computed as one batch of a fixed shape, so a block's frames depend neither on the pieces that
/// its samples came in nor on the blocks beside it: in tests, not in a bit on a CPU. To the whole
/// utterance's features they are equal up to the order of the filterbank's sums, which is that of
/// the product's shape; bit for bit until there.
///
/// normalize: NA (none) and with numbers of the model (fixed_mean, fixed_std): like that. What is
/// normalised over the utterance (per_feature, all_features) is not known before its end:
/// UserError. Buffered streams do that over each buffer, as NeMo does.
class StreamFeatures {
 public:
  /// Computes features of `rows` blocks of `frames` frames at a time.
  StreamFeatures(std::shared_ptr<const AcousticModel> model, int64_t rows, int64_t frames);

  struct Block {
    const StreamAudio* audio;
    int64_t first;  // frame; may lie before the utterance's begin
    int64_t end;    // frames at or behind it are zeros, as those before the begin
  };

  /// At most `rows` blocks -> [rows, M, frames] float32 on the model's device; rows without a block
  /// are zeros. On a GPU, does not wait but for the copy of the samples.
  at::Tensor operator()(std::span<const Block> blocks) const;

  /// Samples that must have come before frames up to `end` can be computed while more may come.
  int64_t samples_for(int64_t end) const;
  /// The first sample that a block from frame `first` on looks at.
  int64_t first_sample(int64_t first) const;

 private:
  std::shared_ptr<const AcousticModel> model_;
  int64_t rows_, frames_;
};

}  // namespace rtfx
