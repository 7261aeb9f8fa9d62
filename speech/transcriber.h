// Makes transcripts of recordings: reading, batching, encoding, decoding, and the cutting of long
// files. `rtfx transcribe` prints the results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/confidence/confidence.h"
#include "models/acoustic_model.h"
#include "speech/long_audio/chunks.h"
#include "speech/pipeline/default_decoder.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/recording.h"
#include "speech/transcript/transcript.h"

namespace rtfx {

struct TranscriberOptions {
  int64_t batch_size = 0;  // recordings; 0 = one on a CPU, and on a GPU fitting_batch_seconds()
  Cuts cuts = {};
  double pause = 1;  // seconds without a word that end a segment
  /// A stretch of this many seconds that has no token, but at least 1.5 s of speech, is decoded
  /// again (long_audio/decode_again.h). For a recording that is not cut and has no token, 0.5 s of
  /// speech is enough, whatever its length. In the chunks of long recordings, half as many seconds
  /// count. 0 means that nothing is decoded again. A decoder without a head cannot do it.
  double decode_again = 8;
  bool with_times = true;  // words, tokens and segments; if false, a transcript is only its text
  std::optional<ConfidenceOptions> confidence = {};
};

/// The result of one recording.
struct Transcription {
  double seconds = 0;  // length of the audio
  Hypothesis hypothesis;
  Transcript transcript;
};

/// Receives the results of Transcriber::run() while it works. Calls come from several threads, but
/// never two at a time. A recording is named by its index in the list that run() was given.
/// Exceptions of started(), reading(), result() and failure() end run().
class TranscriptionObserver {
 public:
  virtual ~TranscriptionObserver() = default;

  /// These recordings form the batch that is encoded next. A long recording forms a batch alone.
  virtual void started(const std::vector<size_t>& recordings) {}
  /// The reader has begun this recording, or begins it again because it did not fit the last batch.
  virtual void reading(size_t recording) {}
  /// `seconds` of a long recording are done.
  virtual void progress(size_t recording, double seconds) {}
  /// Something about the recording was changed, for example its sample rate, or was left out or
  /// decoded again.
  virtual void notice(size_t recording, const std::string& text) {}
  /// Results come in the order of the recordings.
  virtual void result(size_t recording, const Transcription& transcription) = 0;
  /// There is no result for this recording. `message` names it and says why. Failures come in the
  /// order of the recordings, too. With `bad_input`, the recording or an option is at fault
  /// (UserError).
  virtual void failure(size_t recording, const std::string& message, bool bad_input) = 0;
  /// Is called before each recording, each batch, and each part of a long recording. After the
  /// first `true`, no batch is begun. Batches in flight still end, and no other recording does.
  virtual bool stopped() { return false; }
};

class Transcriber {
 public:
  /// Returns a decoder that is prepared for the model, either by `prepare` or already. Throws
  /// UserError.
  using ChooseDecoder = std::function<std::shared_ptr<Decoder>(const PrepareDecoder& prepare)>;

  /// The calling thread must be on the model's device. Waits for the device. `encoder` is an
  /// encoder of the model, so that its CUDA graphs serve several transcribers. With null, the
  /// transcriber has its own.
  Transcriber(std::shared_ptr<const AcousticModel> model, const ChooseDecoder& choose,
              const TranscriberOptions& options,
              std::shared_ptr<RecordedEncoder> encoder = nullptr);
  ~Transcriber();
  Transcriber(const Transcriber&) = delete;
  Transcriber& operator=(const Transcriber&) = delete;

  struct Totals {
    double audio_seconds = 0;       // of the recordings that have a result
    double confidence_seconds = 0;  // seconds that the confidence took
  };

  /// Transcribes all recordings, batch by batch. Batches are formed from a pool of
  /// recordings, the longest ones first, so that there is little padding. A recording that cannot
  /// be read fails alone. A batch that fails costs only its recordings. The other recordings go on.
  ///
  /// Several threads read files ahead. On a GPU, up to six batches are in flight. Memory is checked
  /// before a batch is encoded. Parts that are decoded again form batches of their own, which are
  /// processed in the same way.
  Totals run(const std::vector<Recording>& recordings, TranscriptionObserver& observer);

 private:
  struct Job;
  struct Waiting;
  class Pass;

  std::shared_ptr<const AcousticModel> model_;
  TranscriberOptions options_;
  struct Parts;  // encoder, pipeline, decoder and confidence
  std::unique_ptr<Parts> parts_;
};

}  // namespace rtfx
