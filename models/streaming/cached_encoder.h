// A step of a cache-aware FastConformer (Noroozi et al. 2024, "Stateful Conformer with Cache-based
// Inference for Streaming Automatic Speech Recognition"): the next chunk of many streams, each at a
// place of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/acoustic_model.h"
#include "models/streaming/step_sizes.h"

namespace rtfx {

/// The input of a step, with fixed shapes. Rows without a stream have end 0 and the spare slot.
struct CachedStep {
  /// [rows, M, chunk] float32, chunk = StepSizes::chunk_size[1]: the mel frames of the chunk. At a
  /// stream's first step, they end with its chunk_size[0] frames.
  at::Tensor features;
  /// [4, rows] int64. Of the window of the frames before the chunk (pre_encode_cache_size[1]) and
  /// the chunk: where the stream's first frame is in it, 0 where it is before; the frame behind its
  /// last one, or 0. Encoder frames that the stream has had. The stream's slot.
  at::Tensor rows;
};

/// Caches of `slots` streams on the model's device, in the encoder's dtype, and the step over them:
///   - mel frames before the chunk (float32), of which the sub-sampling makes its first frames
///     again, and drops those that lack what is before them;
///   - keys and values of the encoder frames that attention still sees. NeMo keeps what they are
///     made of (cache_last_channel) and makes them anew each step: half the memory, and for each
///     frame of a chunk the products of (left context + chunk) / chunk frames;
///   - what the convolutions still see (cache_last_time).
class CachedEncoder {
 public:
  virtual ~CachedEncoder() = default;

  /// Encoder frames [rows, valid_out_len, D] of the rows' chunks, and the caches behind them. A
  /// row's valid frames are valid_frames() of its end. Of fixed shapes, without a wait for the
  /// device or a look at a value, so that a CUDA graph can hold it. The slots of rows must differ,
  /// but for the spare one.
  virtual at::Tensor operator()(const CachedStep& step) = 0;

  /// Makes a slot that of a new stream.
  virtual void clear(int64_t slot) { mel_.select(0, slot).zero_(); }

  const StepSizes& sizes() const { return sizes_; }
  /// The slot of rows without a stream.
  int64_t spare_slot() const { return mel_.size(0) - 1; }
  /// Encoder frames of a row whose window ends at `end`.
  int64_t valid_frames(int64_t end) const;

 protected:
  CachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                int64_t slots);

  /// [rows, M, pre_encode_cache_size + chunk]: the chunks behind what is before them, which goes
  /// on.
  at::Tensor next_window(const CachedStep& step);

  const std::shared_ptr<const AcousticModel> model_;
  const EncoderConfig config_;
  const StepSizes sizes_;

 private:
  at::Tensor mel_;  // [slots + 1, M, pre_encode_cache_size]
};

}  // namespace rtfx
