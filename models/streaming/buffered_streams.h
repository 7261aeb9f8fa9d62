// Streams for models that are not made for it: the ordinary encoder on a buffer of audio, of which
// only the frames in the middle are used.
#pragma once

#include <memory>

#include "models/acoustic_model.h"
#include "models/streaming/encoder_streams.h"

namespace rtfx {

/// Streams on buffers of audio, in the manner of NeMo's speech_to_text_streaming_infer_rnnt.py.
/// Features and encoder run on [left | chunk | right]; at the begin the left context is as long as
/// the audio allows. Features that are normalised over the utterance are normalised over the
/// buffer. At the end the rest, of up to chunk + right, is one chunk, and the left context fills
/// the buffer. A chunk waits for the sample behind its right context, so the end does not depend on
/// when finish() is called.
///
/// Frames equal those of the whole utterance only as far as the model needs no more context.
class BufferedStreams : public EncoderStreams {
 public:
  BufferedStreams(std::shared_ptr<const AcousticModel> model, const StreamOptions& options);

  int64_t most_frames() const override { return (chunk_ + right_) / frame_ + 1; }
  int64_t chunk_samples() const override { return chunk_; }
  int64_t look_ahead_samples() const override { return right_ + 1; }

 private:
  /// The cut of a row, in samples and encoder frames.
  struct Cut {
    int64_t first, samples;  // of the buffer
    int64_t skip, frames;    // of the encoder's
  };

  int64_t frames_of_seconds(double seconds) const;
  Cut cut(const Stream& stream, bool last) const;
  bool is_last(const Stream& stream) const;

  bool ready(const Stream& stream) const override;
  EncodedPieces encode(Rows rows) override;
  void opened(int64_t /*slot*/) override {}

  std::shared_ptr<const AcousticModel> model_;
  int64_t frame_;                 // samples of an encoder frame
  int64_t left_, chunk_, right_;  // samples
};

}  // namespace rtfx
