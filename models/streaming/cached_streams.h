// Streams by caches, for cache-aware models: each frame is computed once.
#pragma once

#include <memory>

#include "models/streaming/cached_encoder.h"
#include "models/streaming/encoder_streams.h"
#include "models/streaming/stream_features.h"

namespace rtfx {

/// Equal to the whole utterance's encoder (its masks let nothing through from behind a chunk), up
/// to the rounding of differently shaped products.
class CachedStreams : public EncoderStreams {
 public:
  CachedStreams(std::shared_ptr<const AcousticModel> model, const StreamOptions& options);

  int64_t most_frames() const override { return encoder_->sizes().valid_out_len; }
  int64_t chunk_samples() const override;
  int64_t look_ahead_samples() const override;

 private:
  /// The mel frame behind the stream's next chunk, where it is a full one.
  int64_t chunk_end(const Stream& stream) const;

  bool ready(const Stream& stream) const override;
  EncodedPieces encode(Rows rows) override;
  void opened(int64_t slot) override { encoder_->clear(slot); }

  /// Encoder frames of what is in step_, which the next step overwrites.
  const at::Tensor& encoded();

  std::shared_ptr<const AcousticModel> model_;
  StepRecorder recorder_;
  std::unique_ptr<CachedEncoder> encoder_;
  StreamFeatures features_;
  CachedStep step_;
  at::Tensor output_;
  std::function<void()> recorded_;  // computes output_ of step_
};

}  // namespace rtfx
