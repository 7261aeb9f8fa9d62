// Runs the steps of pipeline.h with several batches in flight. While one is decoded, the next ones
// are encoded and copied to the device, and the one before is converted to text.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "speech/pipeline/pipeline.h"

namespace rtfx {

/// Streams of a GPU for batches in flight, one for each kind of work. `decode` and `finish`, the
/// copy back, have high priority, because their work is short and more work waits for it. They come
/// from new_stream(), since one stage may record a graph while others enqueue work.
struct PipelineStreams {
  /// Returns the streams of the device, or null on the CPU. They are never destroyed, since
  /// LibTorch keeps memory by stream. Any thread may call this.
  static const PipelineStreams* of(at::Device device);

  explicit PipelineStreams(at::DeviceIndex gpu);

  c10::Stream copy, encode, decode, finish;
};

/// Runs `work` with the stream as LibTorch's current one. Without streams, it only runs `work`.
template <class Work>
void on_stream(const PipelineStreams* streams, c10::Stream PipelineStreams::*stream,
               const Work& work) {
  std::optional<c10::StreamGuard> guard;
  if (streams != nullptr) guard.emplace(streams->*stream);
  work();
}

/// Marks the end of enqueued work, without timing it. Without streams, all functions do nothing.
class EndOfWork {
 public:
  explicit EndOfWork(const PipelineStreams* streams) : streams_(streams) {
    if (streams_ != nullptr) event_.emplace(at::kCUDA, c10::EventFlag::PYTORCH_DEFAULT);
  }

  /// Marks the work that the stream holds now.
  void record(c10::Stream PipelineStreams::*stream) {
    if (event_) event_->record(streams_->*stream);
  }
  /// Makes work that is enqueued on the stream after this call begin after the mark.
  void block(c10::Stream PipelineStreams::*stream) const {
    if (event_) event_->block(streams_->*stream);
  }
  /// Makes the host wait for the mark.
  void wait() const {
    if (event_) event_->synchronize();
  }

 private:
  const PipelineStreams* streams_;
  std::optional<c10::Event> event_;
};

/// A batch in flight. Its tensors live until its text exists, because work on several streams uses
/// them until then.
struct BatchInFlight {
  std::vector<std::vector<float>> audio;  // samples that the source does not keep elsewhere
  Clips clips;
  std::vector<std::shared_ptr<const CompiledBias>> biases;  // EncodedBatch::biases, by the source
  const Confidence* judge = nullptr;  // a second confidence, set by the source; null = none
  CopiedBatch copied;
  Encoded encoded;
  EncodedBatch batch;
  Hypotheses hypotheses;
  Decoded decoded;
  std::vector<std::vector<TokenEvidence>> judged;  // results of `judge`, like Decoded::evidence

  RegionTimes times;
  double load_seconds = 0;                           // time that the source took
  std::chrono::steady_clock::time_point begin, end;  // before pad, and after detokenize
  std::exception_ptr failure = nullptr;              // failure of this batch
  const char* failed_in = "";                        // "load", "encoder" or "decode"
};

class OverlappedPipeline {
 public:
  /// Fills `clips` of batch `number`. Returns false if there is no such batch. An exception fails
  /// the batch, except that Interrupted ends the pass.
  using Source = std::function<bool(size_t number, BatchInFlight& batch)>;
  /// Receives each batch in order, also those that failed. An exception ends the pass.
  using Sink = std::function<void(size_t number, BatchInFlight& batch)>;

  /// At most `in_flight` batches are between the begin of their reading and their text. With one
  /// batch in flight, the steps follow each other on the calling thread and its stream. `encoder`
  /// belongs to `model` and outlives this.
  OverlappedPipeline(std::shared_ptr<const AcousticModel> model, RecordedEncoder& encoder,
                     size_t in_flight);
  ~OverlappedPipeline();

  /// Calls decoder.prepare() on the stream on which it decodes, since its CUDA graphs get the
  /// stream's priority. Waits for the device.
  void prepare(Decoder& decoder, const Limits& limits) const;

  /// Sends `rows` utterances of silence, each of `samples` samples, through `decoder`, which is
  /// prepared. Takes pinned memory for as many such batches as are in flight. Libraries have then
  /// loaded their kernels and taken their memory before the first batch comes. The encoder records
  /// no graph. Does nothing on a CPU. Waits for the device. Throws the failure of the batch.
  void warm_up(Decoder& decoder, int64_t rows, int64_t samples);

  /// Sends all batches through `decoder`, which is prepared. Source, decoder and sink are each
  /// called on a thread of their own. `confidence` is null where none is wanted. On a GPU, copies
  /// to the device, the encoder, the decoder, and the copy back have a stream each, the last two
  /// with high priority. Waits for the device at the begin and at the end. Throws the exceptions of
  /// source and sink that end the pass, after all threads have ended.
  void run(Decoder& decoder, const Source& source, const Sink& sink,
           const Confidence* confidence = nullptr);

 private:
  struct Slot;
  class Pass;

  std::shared_ptr<const AcousticModel> model_;
  RecordedEncoder& encoder_;
  const PipelineStreams* streams_;  // null on the CPU, and with one batch in flight
  std::vector<Slot> slots_;
};

}  // namespace rtfx
