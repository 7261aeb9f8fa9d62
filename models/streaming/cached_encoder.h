// Computes a step of a cache-aware FastConformer: the next chunk of many streams, each of which may
// be at a different position. The encoder is that of Noroozi et al., "Stateful Conformer with
// Cache-based Inference for Streaming Automatic Speech Recognition", 2024.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "models/acoustic_model.h"
#include "models/checkpoint/config.h"

namespace rtfx {

/// The sizes that NeMo's ConformerEncoder.setup_streaming_params() computes, under NeMo's names.
/// Where there are two numbers, the first one holds for a stream's first step. NeMo's
/// cache_drop_size is left out, since it is 0 for these encoders.
struct StepSizes {
  std::array<int64_t, 2> chunk_size;             // mel frames that a step gets
  std::array<int64_t, 2> shift_size;             // mel frames by which a step advances
  std::array<int64_t, 2> pre_encode_cache_size;  // earlier mel frames that a step sees again
  int64_t drop_extra_pre_encoded;   // encoder frames of these, to drop except at the first step
  int64_t valid_out_len;            // encoder frames of a full step
  int64_t last_channel_cache_size;  // earlier encoder frames that attention sees
  int64_t last_time_cache_size;     // earlier encoder frames that the convolutions see
};

/// Returns the sizes for an encoder that why_not_cache_aware() accepts.
StepSizes step_sizes(const EncoderConfig& encoder);

/// Returns the reason why caches cannot give a model's results for the whole utterance. Returns an
/// empty text if they can. They can where every layer sees a limited number of frames before a
/// chunk and nothing after it:
///
///   - att_context_style is chunked_limited, or regular without right context.
///   - Sub-sampling is by causal convolutions, and all convolutions are causal.
///   - There is no norm over time, no normalisation over the utterance, and no reduction of frames.
std::string why_not_cache_aware(const ModelConfig& model);

/// The input of a step, with fixed shapes. Rows without a stream have an end of 0 and the spare
/// slot.
struct CachedStep {
  /// [rows, M, chunk] float32, chunk = StepSizes::chunk_size[1]: the mel frames of the chunk. At a
  /// stream's first step, they end with its chunk_size[0] frames.
  at::Tensor features;
  /// The rows of `control`. The window consists of the mel frames before the chunk
  /// (pre_encode_cache_size[1]) and those of the chunk.
  enum ControlRow : int64_t {
    kBegin,    // the stream's first frame in the window; 0 if it lies before the window
    kEnd,      // the frame after the stream's last one in the window, or 0
    kEncoded,  // encoder frames that the stream has had
    kSlot,     // the stream's slot
    kPrompt,   // the stream's prompt, which only models with prompts read
    kControlRows
  };
  at::Tensor control;  // [kControlRows, rows] int64
};

/// The caches of `slots` streams on the model's device, in the encoder's dtype, and the step that
/// uses them. There are three caches:
///   - The mel frames before the chunk (float32). From them, the sub-sampling computes its first
///     frames again, and drops those that lack earlier frames.
///   - The keys and values of the encoder frames that attention still sees. NeMo keeps the frames
///     from which they are made (cache_last_channel) and computes keys and values again at each
///     step. That takes half the memory. It costs, for each frame of a chunk, the products of
///     (left context + chunk) / chunk frames.
///   - The frames that the convolutions still see (cache_last_time).
class CachedEncoder {
 public:
  virtual ~CachedEncoder() = default;

  /// Returns the encoder frames [rows, valid_out_len, D] of the rows' chunks, and updates the
  /// caches. A row's valid frames are valid_frames() of its end. Shapes are fixed, and the call
  /// neither waits for the device nor reads a value from it, so that a CUDA graph can hold it. No
  /// two rows may have the same slot, except for the spare one.
  at::Tensor operator()(const CachedStep& step) {
    return model_->encoder->conditioned(forward(step), step.control[CachedStep::kPrompt]);
  }

  /// Prepares a slot for a new stream.
  virtual void clear(int64_t slot) { mel_.select(0, slot).zero_(); }

  const StepSizes& sizes() const { return sizes_; }
  /// Returns the slot of rows without a stream.
  int64_t spare_slot() const { return mel_.size(0) - 1; }
  /// Returns the number of encoder frames of a row whose window ends at `end`.
  int64_t valid_frames(int64_t end) const;

 protected:
  CachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                int64_t slots);

  /// Puts the mel frames of the cache before the chunks, and updates the cache. Returns [rows, M,
  /// pre_encode_cache_size + chunk].
  at::Tensor next_window(const CachedStep& step);

  const std::shared_ptr<const AcousticModel> model_;
  const EncoderConfig config_;
  const StepSizes sizes_;

 private:
  /// Returns the frames of the last layer.
  virtual at::Tensor forward(const CachedStep& step) = 0;

  at::Tensor mel_;  // [slots + 1, M, pre_encode_cache_size]
};

/// Makes a cached encoder from the operators or the kernels of the model's encoder. `context` holds
/// the encoder's settings with the wanted attention context; the model's own context is not used.
/// Throws UserError where the encoder does not allow caches, or sees too far for its kernels.
std::unique_ptr<CachedEncoder> make_cached_encoder(std::shared_ptr<const AcousticModel> model,
                                                   const EncoderConfig& context, int64_t slots);

}  // namespace rtfx
