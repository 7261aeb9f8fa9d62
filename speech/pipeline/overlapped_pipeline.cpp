#include "speech/pipeline/overlapped_pipeline.h"

#include <utility>

#include "algorithms/foreign_code.h"
#include "algorithms/gpu/new_stream.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

PipelineStreams::PipelineStreams(at::DeviceIndex gpu)
    : copy(new_stream(gpu, "rtfx copy", /*high_priority=*/false)),
      encode(new_stream(gpu, "rtfx encoder", /*high_priority=*/false)),
      decode(new_stream(gpu, "rtfx decode", /*high_priority=*/true)),
      finish(new_stream(gpu, "rtfx texts", /*high_priority=*/true)) {}

const PipelineStreams* PipelineStreams::of(at::Device device) {
  return device.is_cuda() ? &one_for_gpu<PipelineStreams>(device.index()) : nullptr;
}

namespace {

using Clock = std::chrono::steady_clock;

/// Runs `work`. An exception becomes the batch's failure, and later stages skip the batch.
template <class Work>
void attempt(BatchInFlight& batch, const char* name, const Work& work) {
  if (batch.failure) return;
  try {
    work();
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    batch.failure = std::current_exception();
    batch.failed_in = name;
  }
}

}  // namespace

/// Memory for a batch in flight.
struct OverlappedPipeline::Slot {
  explicit Slot(const PipelineStreams* streams)
      : copied(streams), encoded(streams), decoded(streams) {}

  BatchInFlight batch;
  PinnedMemory memory;                 // holds the batch's samples, on a GPU
  EndOfWork copied, encoded, decoded;  // ends of work on the device
};

OverlappedPipeline::OverlappedPipeline(std::shared_ptr<const AcousticModel> model,
                                       RecordedEncoder& encoder, size_t in_flight)
    : model_(std::move(model)),
      encoder_(encoder),
      streams_(in_flight == 1 ? nullptr : PipelineStreams::of(model_->device)) {
  for (size_t i = 0; i < in_flight; ++i) slots_.emplace_back(streams_);
}

OverlappedPipeline::~OverlappedPipeline() = default;

void OverlappedPipeline::prepare(Decoder& decoder, const Limits& limits) const {
  synchronize(model_->device);  // weights may come from another stream
  call_decoder(decoder, {}, [&] {
    on_stream(streams_, &PipelineStreams::decode, [&] { decoder.prepare(model_, limits); });
  });
  synchronize(model_->device);
}

void OverlappedPipeline::warm_up(Decoder& decoder, int64_t rows, int64_t samples) {
  if (!model_->device.is_cuda()) return;
  for (Slot& slot : slots_) slot.memory.take(rows * samples);
  const std::vector<float> silence(static_cast<size_t>(samples));
  const ScopedGraphs no_graphs(encoder_, false);
  run(
      decoder,
      [&](size_t number, BatchInFlight& batch) {
        if (number > 0) return false;
        // Any prompt serves here. A model without a standard prompt needs one.
        batch.clips.assign(static_cast<size_t>(rows), ClipOfBatch(silence, 0));
        return true;
      },
      [](size_t, BatchInFlight& batch) {
        if (batch.failure) std::rethrow_exception(batch.failure);
      });
}

/// One pass of batches through a decoder.
///
/// A stage waits on the host for the work that the stage before it has enqueued, so that no
/// region's time contains this wait. The encoder's stage does not wait. The device must find that
/// work enqueued when it has finished the batch before.
class OverlappedPipeline::Pass {
 public:
  Pass(OverlappedPipeline& pipeline, Decoder& decoder, const Confidence* confidence)
      : pipeline_(pipeline),
        model_(*pipeline.model_),
        decoder_(decoder),
        confidence_(confidence),
        clock_(model_.device, RegionClock::Mode::overlapped),
        rules_(decoder, model_.config) {}

  /// Fills the batch of an item. Returns false if there is no such batch.
  bool load(size_t item, const Source& source);

  /// Returns a stage that does `work` with the batches of items, on the stream. A batch whose work
  /// throws has failed in `part`.
  Stage stage(const char* thread, const char* part, c10::Stream PipelineStreams::*stream,
              void (Pass::*work)(Slot&));

  // The work of the stages.
  void copy(Slot& slot);
  void encode(Slot& slot);
  void decode(Slot& slot);
  void finish(Slot& slot);

  Slot& slot_of(size_t item) { return pipeline_.slots_[item % pipeline_.slots_.size()]; }

 private:
  OverlappedPipeline& pipeline_;
  const AcousticModel& model_;
  Decoder& decoder_;
  const Confidence* confidence_;
  const RegionClock clock_;
  const ResultRules rules_;
};

bool OverlappedPipeline::Pass::load(size_t item, const Source& source) {
  BatchInFlight& b = slot_of(item).batch;
  b = {};  // a source that has ended may have left data in it
  const auto begin = Clock::now();
  bool more = true;
  attempt(b, "load", [&] { more = source(item, b); });
  b.load_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return more;
}

Stage OverlappedPipeline::Pass::stage(const char* thread, const char* part,
                                      c10::Stream PipelineStreams::*stream,
                                      void (Pass::*work)(Slot&)) {
  return {thread, [this, part, stream, work](size_t item) {
            Slot& slot = slot_of(item);
            attempt(slot.batch, part,
                    [&] { on_stream(pipeline_.streams_, stream, [&] { (this->*work)(slot); }); });
          }};
}

void OverlappedPipeline::Pass::copy(Slot& slot) {
  BatchInFlight& b = slot.batch;
  b.begin = Clock::now();
  b.copied = copy_batch(model_, b.clips, clock_, b.times, &slot.memory);
  slot.copied.record(&PipelineStreams::copy);
}

void OverlappedPipeline::Pass::encode(Slot& slot) {
  BatchInFlight& b = slot.batch;
  slot.copied.block(&PipelineStreams::encode);
  b.encoded = encode_copied(model_, pipeline_.encoder_, b.copied, clock_, b.times);
  b.batch = {b.encoded.frames, b.encoded.lengths, b.copied.lengths_host};
  slot.encoded.record(&PipelineStreams::encode);
}

void OverlappedPipeline::Pass::decode(Slot& slot) {
  BatchInFlight& b = slot.batch;
  slot.encoded.wait();
  b.batch.biases = b.biases;
  b.hypotheses = search_batch(decoder_, b.batch, rules_, clock_, b.times, /*sync_debug=*/false);
  b.decoded.counters = decoder_.counters();
  slot.decoded.record(&PipelineStreams::decode);
}

void OverlappedPipeline::Pass::finish(Slot& slot) {
  BatchInFlight& b = slot.batch;
  slot.decoded.wait();
  Decoded decoded = finish_batch(*model_.tokenizer, b.batch, b.hypotheses, rules_, clock_, b.times);
  if (b.judge != nullptr) {
    add_evidence(*b.judge, b.batch, decoded, clock_, b.times);
    b.judged = std::exchange(decoded.evidence, {});
  }
  if (confidence_ != nullptr) add_evidence(*confidence_, b.batch, decoded, clock_, b.times);
  b.end = Clock::now();
  decoded.counters = std::move(b.decoded.counters);
  b.decoded = std::move(decoded);
  b.times.settle();
}

void OverlappedPipeline::run(Decoder& decoder, const Source& source, const Sink& sink,
                             const Confidence* confidence) {
  Pass pass(*this, decoder, confidence);
  synchronize(model_->device);
  const Stage finish = pass.stage("rtfx texts", "decode", &PipelineStreams::finish, &Pass::finish);
  const auto hand_over = [&](size_t item) {
    finish.work(item);
    BatchInFlight& batch = pass.slot_of(item).batch;
    if (batch.failure) synchronize(model_->device);  // waits for the work it has enqueued
    sink(item, batch);
    batch = {};
  };
  const std::vector<Stage> stages = {
      {"rtfx load", [](size_t) {}},
      pass.stage("rtfx copy", "encoder", &PipelineStreams::copy, &Pass::copy),
      pass.stage("rtfx encoder", "encoder", &PipelineStreams::encode, &Pass::encode),
      pass.stage("rtfx decode", "decode", &PipelineStreams::decode, &Pass::decode),
      {finish.name, hand_over},
  };
  const auto load = [&](size_t item) { return pass.load(item, source); };
  const auto enter = [&] { return std::make_shared<ThreadSettings>(model_->device); };
  try {
    run_stages(stages, slots_.size(), load, enter);
  } catch (...) {
    synchronize(model_->device);
    for (Slot& slot : slots_) slot.batch = {};
    throw;
  }
  synchronize(model_->device);
}

}  // namespace rtfx
