#include "harness/run/overlapped_pipeline.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <optional>

#include "base/gpu/check.h"
#include "harness/machine/device.h"
#include "harness/machine/interrupt.h"
#include "harness/run/stages.h"
#include "harness/run/thread_settings.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What `work` throws is the failure of the batch, for which nothing more is done.
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

/// Room for a batch in flight.
struct OverlappedPipeline::Slot {
  BatchInFlight batch;
  // The end of each step's work on the device; without streams unused.
  std::optional<c10::Event> copied, encoded, decoded;
};

/// Not of LibTorch's pool, whose streams graphs are recorded on by turns: what another thread
/// enqueued on one of those meanwhile would be recorded too.
struct OverlappedPipeline::Streams {
  explicit Streams(at::Device device)
      : copy(make(device, false)),
        encode(make(device, false)),
        decode(make(device, true)),
        finish(make(device, true)) {}

  /// The device's. They stay, since LibTorch keeps memory by stream.
  static const Streams& of(at::Device device) {
    static std::map<at::DeviceIndex, const Streams> all;
    return all.try_emplace(device.index(), device).first->second;
  }

  c10::Stream copy, encode, decode, finish;

 private:
  static c10::Stream make(at::Device device, bool high_priority) {
    const c10::cuda::CUDAGuard guard(device);
    int least = 0, greatest = 0;
    RTFX_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    RTFX_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                           high_priority ? greatest : least));
    return c10::cuda::getStreamFromExternal(stream, device.index()).unwrap();
  }
};

OverlappedPipeline::OverlappedPipeline(std::shared_ptr<const AcousticModel> model,
                                       RecordedEncoder& encoder, size_t in_flight)
    : model_(std::move(model)), encoder_(encoder), slots_(in_flight) {
  if (!model_->device.is_cuda() || in_flight == 1) return;
  streams_ = &Streams::of(model_->device);
  for (Slot& slot : slots_) {
    for (auto* event : {&slot.copied, &slot.encoded, &slot.decoded})
      event->emplace(at::kCUDA, c10::EventFlag::PYTORCH_DEFAULT);  // without its time
  }
}

OverlappedPipeline::~OverlappedPipeline() = default;

void OverlappedPipeline::prepare(Decoder& decoder, const Limits& limits) const {
  synchronize(model_->device);  // the model's weights come from another stream
  {
    std::optional<c10::StreamGuard> guard;
    if (streams_ != nullptr) guard.emplace(streams_->decode);
    decoder.prepare(model_, limits);
  }
  synchronize(model_->device);
}

void OverlappedPipeline::run(Decoder& decoder, const Source& source, const Sink& sink,
                             const Frames& frames, const Confidence* confidence) {
  const RegionClock clock(model_->device, RegionClock::Mode::overlapped);
  const ResultRules rules(decoder.describe(), model_->config);
  synchronize(model_->device);

  // A stage waits on the host for what the one before has enqueued, so that this wait is in no
  // region's time; but for the encoder, whose work the device must find enqueued when it is done
  // with the batch before.
  const auto copy = [&](Slot& slot) {
    BatchInFlight& b = slot.batch;
    b.begin = Clock::now();
    b.copied = copy_batch(*model_, b.clips, clock, b.times);
    if (streams_ != nullptr) slot.copied->record(streams_->copy);
  };
  const auto encode = [&](Slot& slot) {
    BatchInFlight& b = slot.batch;
    if (streams_ != nullptr) slot.copied->block(streams_->encode);
    b.encoded = encode_copied(*model_, encoder_, b.copied, clock, b.times);
    b.batch = {b.encoded.frames, b.encoded.lengths, b.copied.lengths_host};
    if (streams_ != nullptr) slot.encoded->record(streams_->encode);
  };
  const auto decode = [&](Slot& slot, size_t number) {
    BatchInFlight& b = slot.batch;
    if (streams_ != nullptr) slot.encoded->synchronize();
    if (const EncodedBatch* other = frames ? frames(number) : nullptr) b.batch = *other;
    b.batch.biases = b.biases;
    b.hypotheses = search_batch(decoder, b.batch, rules, clock, b.times, /*sync_debug=*/false);
    b.decoded.counters = decoder.counters();
    if (streams_ != nullptr) slot.decoded->record(streams_->decode);
  };
  const auto finish = [&](Slot& slot) {
    BatchInFlight& b = slot.batch;
    if (streams_ != nullptr) slot.decoded->synchronize();
    Decoded decoded =
        finish_batch(*model_->tokenizer, b.batch, b.hypotheses, rules, clock, b.times);
    if (confidence != nullptr) add_evidence(*confidence, b.batch, decoded, clock, b.times);
    b.end = Clock::now();
    decoded.counters = std::move(b.decoded.counters);
    b.decoded = std::move(decoded);
    b.times.settle();
  };

  const auto slot_of = [&](size_t item) -> Slot& { return slots_[item % slots_.size()]; };
  const auto load = [&](size_t item) {
    BatchInFlight& b = slot_of(item).batch;
    const auto begin = Clock::now();
    bool more = true;
    attempt(b, "load", [&] { more = source(item, b); });
    b.load_seconds = seconds_since(begin);
    return more;
  };
  const auto on_stream = [&](c10::Stream Streams::*stream, const auto& work) {
    std::optional<c10::StreamGuard> guard;
    if (streams_ != nullptr) guard.emplace((*streams_).*stream);
    work();
  };
  const std::vector<Stage> stages = {
      {"rtfx load", [](size_t) {}},
      {"rtfx copy",
       [&](size_t item) {
         Slot& slot = slot_of(item);
         attempt(slot.batch, "encoder", [&] { on_stream(&Streams::copy, [&] { copy(slot); }); });
       }},
      {"rtfx encoder",
       [&](size_t item) {
         Slot& slot = slot_of(item);
         attempt(slot.batch, "encoder",
                 [&] { on_stream(&Streams::encode, [&] { encode(slot); }); });
       }},
      {"rtfx decode",
       [&](size_t item) {
         Slot& slot = slot_of(item);
         attempt(slot.batch, "decode",
                 [&] { on_stream(&Streams::decode, [&] { decode(slot, item); }); });
       }},
      {"rtfx texts",
       [&](size_t item) {
         Slot& slot = slot_of(item);
         attempt(slot.batch, "decode", [&] { on_stream(&Streams::finish, [&] { finish(slot); }); });
         if (slot.batch.failure) synchronize(model_->device);  // what it has enqueued
         sink(item, slot.batch);
         slot.batch = {};
       }},
  };
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
