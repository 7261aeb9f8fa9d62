// This runs the steps of pipeline.h with several batches in flight. While one is decoded, the next
// ones are encoded and copied to the device, and texts are made of the one before.
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
/// copy back, are of high priority, since what they do is short and more waits for it. None is of
/// LibTorch's pool, whose streams graphs are recorded on by turns: what another thread enqueued on
/// one of those meanwhile would be recorded too.
struct PipelineStreams {
  /// The device's; null on the CPU. They stay, since LibTorch keeps memory by stream. Any thread
  /// may call.
  static const PipelineStreams* of(at::Device device);

  explicit PipelineStreams(at::DeviceIndex gpu);

  c10::Stream copy, encode, decode, finish;
};

/// Does `work` with the stream as LibTorch's current one; without streams, as it is.
template <class Work>
void on_stream(const PipelineStreams* streams, c10::Stream PipelineStreams::*stream,
               const Work& work) {
  std::optional<c10::StreamGuard> guard;
  if (streams != nullptr) guard.emplace(streams->*stream);
  work();
}

/// An end of work that was enqueued, without its time. Without streams all of it does nothing.
class EndOfWork {
 public:
  explicit EndOfWork(const PipelineStreams* streams) : streams_(streams) {
    if (streams_ != nullptr) event_.emplace(at::kCUDA, c10::EventFlag::PYTORCH_DEFAULT);
  }

  /// Marks the work that the stream holds now.
  void record(c10::Stream PipelineStreams::*stream) {
    if (event_) event_->record(streams_->*stream);
  }
  /// Makes work that is enqueued on the stream from now on begin after the mark.
  void block(c10::Stream PipelineStreams::*stream) const {
    if (event_) event_->block(streams_->*stream);
  }
  /// The host waits for it.
  void wait() const {
    if (event_) event_->synchronize();
  }

 private:
  const PipelineStreams* streams_;
  std::optional<c10::Event> event_;
};

/// A batch on its way. Its tensors live until its text is there, since work that is enqueued on
/// several streams uses them till then.
struct BatchInFlight {
  std::vector<std::vector<float>> audio;  // samples, where the source does not keep them elsewhere
  Clips clips;
  std::vector<std::shared_ptr<const CompiledBias>> biases;  // of EncodedBatch, by the source
  const Confidence* judge = nullptr;  // asked besides the pass's, by the source; null: none is
  CopiedBatch copied;
  Encoded encoded;
  EncodedBatch batch;
  Hypotheses hypotheses;
  Decoded decoded;
  std::vector<std::vector<TokenEvidence>> judged;  // by `judge`, as Decoded::evidence

  RegionTimes times;
  double load_seconds = 0;                           // of the source
  std::chrono::steady_clock::time_point begin, end;  // before pad, and after detokenize
  std::exception_ptr failure = nullptr;              // of this batch,
  const char* failed_in = "";                        // in "load", "encoder" or "decode"
};

class OverlappedPipeline {
 public:
  /// Fills `clips` of batch `number`; false: there is none. What it throws fails the batch, but
  /// Interrupted everything.
  using Source = std::function<bool(size_t number, BatchInFlight& batch)>;
  /// Is given each batch in its order, also those that failed; what it throws ends the pass.
  using Sink = std::function<void(size_t number, BatchInFlight& batch)>;

  /// At most `in_flight` batches from the begin of their reading to their text. With one, the steps
  /// follow each other on the calling thread and its stream. `encoder` is of `model` and outlives
  /// this.
  OverlappedPipeline(std::shared_ptr<const AcousticModel> model, RecordedEncoder& encoder,
                     size_t in_flight);
  ~OverlappedPipeline();

  /// decoder.prepare() on the stream that it decodes on, whose priority its CUDA graphs take. Waits
  /// for the device.
  void prepare(Decoder& decoder, const Limits& limits) const;

  /// Sends `rows` utterances of silence, each of so many samples, through `decoder`, which is
  /// prepared, and takes pinned memory for as many such batches as are in flight. So libraries have
  /// loaded their kernels and taken their memory before the first batch comes. The encoder records
  /// no graph. On a CPU it does nothing. Waits for the device; throws what the batch fails with.
  void warm_up(Decoder& decoder, int64_t rows, int64_t samples);

  /// All batches through `decoder`, which is prepared. Source, decoder and sink are called on
  /// threads of their own, none of them by two at a time. `confidence`: null for none. On a GPU,
  /// copies to the device, the encoder, the decoder, and the copy back have a stream each, the last
  /// two of high priority. Waits for the device at the begin and at the end. Throws what source and
  /// sink let through, after all threads have come to an end.
  void run(Decoder& decoder, const Source& source, const Sink& sink,
           const Confidence* confidence = nullptr);

 private:
  struct Slot;

  std::shared_ptr<const AcousticModel> model_;
  RecordedEncoder& encoder_;
  const PipelineStreams* streams_;  // null on the CPU, and with one batch in flight
  std::vector<Slot> slots_;
};

}  // namespace rtfx
