// Streams of a GPU for batches in flight: while one is searched, the next ones are encoded and
// copied there.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <optional>

namespace rtfx {

/// One for each kind of work; `decode` and `finish`, the copy back, are of high priority, since
/// what they do is short and more waits for it. None is of LibTorch's pool, whose streams graphs
/// are recorded on by turns: what another thread enqueued on one of those meanwhile would be
/// recorded too.
struct PipelineStreams {
  /// The device's; null on the CPU. They stay, since LibTorch keeps memory by stream.
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

}  // namespace rtfx
