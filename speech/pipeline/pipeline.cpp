#include "speech/pipeline/pipeline.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <numeric>

#include "algorithms/foreign_code.h"
#include "algorithms/gpu/host_read.h"
#include "base/error.h"
#include "models/checkpoint/tensor_data.h"
#include "models/parallel.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

/// Returns the CPU seconds of all threads of this process.
double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double RegionTimes::total() const { return std::accumulate(host.begin(), host.end(), 0.0); }

void RegionTimes::settle() {
  for (const Enqueued& region : enqueued) {
    region.end->synchronize();
    device[static_cast<size_t>(region.region)] += region.begin->elapsedTime(*region.end) * 1e-3;
  }
  enqueued.clear();
}

RegionTimes& RegionTimes::operator+=(const RegionTimes& other) {
  RTFX_CHECK(enqueued.empty() && other.enqueued.empty(), "times that are not settled");
  for (size_t i = 0; i < kRegions; ++i) {
    host[i] += other.host[i];
    device[i] += other.device[i];
  }
  wall += other.wall;
  cpu += other.cpu;
  return *this;
}

RegionTimes& RegionTimes::operator/=(double count) {
  RTFX_CHECK(enqueued.empty(), "times that are not settled");
  for (double& seconds : host) seconds /= count;
  for (double& seconds : device) seconds /= count;
  wall /= count;
  cpu /= count;
  return *this;
}

WallClock::WallClock(RegionTimes& times)
    : times_(times), begin_(std::chrono::steady_clock::now()), cpu_begin_(process_cpu_seconds()) {}

WallClock::~WallClock() {
  times_.cpu += process_cpu_seconds() - cpu_begin_;
  times_.wall += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void RegionClock::measure(Region region, size_t rows, RegionTimes& times,
                          const std::function<void()>& work) const {
  using Clock = std::chrono::steady_clock;
  const auto index = static_cast<size_t>(region);
  const auto count = static_cast<int64_t>(rows);
  if (!device_.is_cuda()) {
    const ScopedRange range(range_of(region), count);
    const auto begin = Clock::now();
    work();
    times.host[index] += std::chrono::duration<double>(Clock::now() - begin).count();
    return;
  }
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto event = [] {
    return std::make_shared<c10::Event>(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  };
  const RegionTimes::Enqueued enqueued{region, event(), event()};
  const auto begin = Clock::now();
  enqueued.begin->record(stream);
  {
    const ScopedRange range(range_of(region), count);
    work();
    enqueued.end->record(stream);
    if (mode_ == Mode::isolated) {
      const ScopedRange waiting(RangeName::wait);  // tells a profile to leave this wait out
      synchronize(device_);
    }
  }
  times.host[index] += std::chrono::duration<double>(Clock::now() - begin).count();
  times.enqueued.push_back(enqueued);
  if (mode_ == Mode::isolated) times.settle();
}

namespace {

/// Returns [clips, samples of the longest], with zeros after each clip. The tensor is in `memory`,
/// if that is not null.
at::Tensor padded(const Clips& clips, int64_t longest, bool pinned, PinnedMemory* memory) {
  const auto count = static_cast<int64_t>(clips.size());
  at::Tensor rows =
      memory != nullptr
          ? memory->take(count * longest).view({count, longest})
          : at::empty({count, longest}, at::TensorOptions(at::kFloat).pinned_memory(pinned));
  float* const first = rows.mutable_data_ptr<float>();
  // Several threads copy, because the device waits for the first batch of a pass.
  parallel_ranges(rows.size(0), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::span<const float> clip = clips[static_cast<size_t>(i)].samples;
      float* const row = first + i * longest;
      std::fill(std::copy(clip.begin(), clip.end(), row), row + longest, 0.0F);
    }
  });
  return rows;
}

/// Returns value(clip) of each clip, [clips] int64.
template <class Value>
at::Tensor integers_of(const Clips& clips, bool pinned, const Value& value) {
  const auto options = at::TensorOptions(at::kLong).pinned_memory(pinned);
  at::Tensor values = at::empty({static_cast<int64_t>(clips.size())}, options);
  std::ranges::transform(clips, values.mutable_data_ptr<int64_t>(), value);
  return values;
}

int64_t longest_of(const Clips& clips) {
  int64_t longest = 0;
  for (const ClipOfBatch& clip : clips) longest = std::max(longest, std::ssize(clip.samples));
  return longest;
}

}  // namespace

BatchSize batch_size(const AcousticModel& model, const Clips& clips) {
  return {static_cast<int64_t>(clips.size()), model.config.encoded_frames(longest_of(clips))};
}

at::Tensor PinnedMemory::take(int64_t count) {
  if (!memory_.defined() || memory_.numel() < count) {
    // The allocator rounds up to a power of two anyway.
    const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
    memory_ = at::empty({power}, at::TensorOptions(at::kFloat).pinned_memory(true));
  }
  return memory_.narrow(0, 0, count);
}

CopiedBatch copy_batch(const AcousticModel& model, const Clips& clips, const RegionClock& clock,
                       RegionTimes& times, PinnedMemory* memory) {
  CopiedBatch copied;
  clock.measure(Region::pad, clips.size(), times, [&] {
    const bool pinned = model.device.is_cuda();
    copied.host =
        padded(clips, std::max<int64_t>(1, longest_of(clips)), pinned, pinned ? memory : nullptr);
    copied.host_lengths =
        integers_of(clips, pinned, [](const ClipOfBatch& c) { return std::ssize(c.samples); });
    if (const PromptConfig& known = model.config.prompt; known.count > 0) {
      copied.host_prompts = integers_of(
          clips, pinned, [&](const ClipOfBatch& c) { return known.or_standard(c.prompt); });
    }
    for (const ClipOfBatch& clip : clips)
      copied.lengths_host.push_back(model.config.encoded_frames(std::ssize(clip.samples)));
  });
  clock.measure(Region::h2d, clips.size(), times, [&] {
    copied.audio = copied.host.to(model.device, at::kFloat, /*non_blocking=*/true);
    copied.lengths = copied.host_lengths.to(model.device, at::kLong, /*non_blocking=*/true);
    if (copied.host_prompts.defined())
      copied.prompts = copied.host_prompts.to(model.device, at::kLong, /*non_blocking=*/true);
  });
  return copied;
}

Encoded encode_copied(const AcousticModel& model, RecordedEncoder& encoder,
                      const CopiedBatch& copied, const RegionClock& clock, RegionTimes& times) {
  Features features;
  Encoded encoded;
  const size_t rows = copied.lengths_host.size();
  clock.measure(Region::features, rows, times, [&] {
    features = (*model.features)(copied.audio, copied.lengths);
    const auto* const samples = data_of<int64_t>(copied.host_lengths);
    for (size_t row = 0; row < rows; ++row)
      features.host_lengths.push_back(model.config.features.frames(samples[row]));
    features.prompts = copied.prompts;
  });
  clock.measure(Region::encoder, rows, times, [&] {
    encoded = encoder(features);
    encoded.frames = encoded.frames.to(model.dtype);  // does nothing where both dtypes are equal
  });
  return encoded;
}

Hypotheses search_batch(Decoder& decoder, const EncodedBatch& batch, const ResultRules& rules,
                        const RegionClock& clock, RegionTimes& times, bool sync_debug) {
  Hypotheses hypotheses;
  const auto work = [&] { hypotheses = decoder.decode(batch); };
  call_decoder(decoder, {}, [&] {
    clock.measure(Region::decode, batch.lengths_host.size(), times,
                  [&] { sync_debug ? forbid_undeclared_syncs(work) : work(); });
  });
  check_layout(hypotheses, batch, rules);
  return hypotheses;
}

Decoded finish_batch(const Tokenizer& tokenizer, const EncodedBatch& batch,
                     const Hypotheses& hypotheses, const ResultRules& rules,
                     const RegionClock& clock, RegionTimes& times) {
  Decoded decoded;
  const size_t rows = batch.lengths_host.size();
  clock.measure(Region::d2h, rows, times, [&] { decoded.hypotheses = hypotheses.to_host(); });
  check_values(decoded.hypotheses, batch, rules);
  clock.measure(Region::detokenize, rows, times, [&] {
    for (const Hypothesis& h : decoded.hypotheses) decoded.texts.push_back(text_of(h, tokenizer));
  });
  return decoded;
}

void add_evidence(const Confidence& confidence, const EncodedBatch& batch, Decoded& decoded,
                  const RegionClock& clock, RegionTimes& times) {
  std::vector<int64_t> rows;
  std::vector<const Hypothesis*> hypotheses;
  for (size_t row = 0; row < decoded.hypotheses.size(); ++row) {
    const Hypothesis& best = decoded.hypotheses[row];
    if (best.nan) continue;
    std::vector<const Hypothesis*> of_row = {&best};
    for (const Hypothesis& entry : best.nbest) of_row.push_back(&entry);
    rows.insert(rows.end(), of_row.size(), static_cast<int64_t>(row));
    hypotheses.insert(hypotheses.end(), of_row.begin(), of_row.end());
  }
  decoded.evidence.assign(decoded.hypotheses.size(), {});
  if (rows.empty()) return;
  std::vector<TokenEvidence> found;
  clock.measure(Region::confidence, decoded.hypotheses.size(), times,
                [&] { found = confidence(batch, rows, hypotheses); });
  for (size_t i = 0; i < rows.size(); ++i)
    decoded.evidence[static_cast<size_t>(rows[i])].push_back(std::move(found[i]));
}

std::string nan_problem(const Decoder& decoder) {
  const nlohmann::json options = decoder.options();
  if (options.contains("graph")) return "no path through the graph, or NaN in the emissions";
  const auto lm = options.find("lm");
  return lm != options.end() && !lm->is_null()
             ? "no hypothesis with a finite score, or NaN in the emissions"
             : "NaN in the emissions";
}

std::string remedy_for_nan(const AcousticModel& model) {
  const auto is_wide = [](at::ScalarType t) { return t == at::kFloat || t == at::kDouble; };
  return is_wide(model.dtype) && is_wide(model.encoder_dtype)
             ? "check the audio and the checkpoint: both were computed in " +
                   Dtypes(model.encoder_dtype, model.dtype).label()
             : "compute in dtype fp32";
}

EncodedBatch encode_batch(const AcousticModel& model, RecordedEncoder& encoder, const Clips& clips,
                          const RegionClock& clock, RegionTimes& times, PinnedMemory* memory) {
  CopiedBatch copied;
  Encoded encoded;
  {
    const WallClock wall(times);
    copied = copy_batch(model, clips, clock, times, memory);
    encoded = encode_copied(model, encoder, copied, clock, times);
  }
  synchronize(model.device);
  return {encoded.frames, encoded.lengths, copied.lengths_host};
}

Decoded decode_batch(Decoder& decoder, const AcousticModel& model, const EncodedBatch& batch,
                     const ResultRules& rules, const RegionClock& clock, RegionTimes& times,
                     bool sync_debug, const Confidence* confidence) {
  Decoded decoded;
  {
    const WallClock wall(times);
    const Hypotheses hypotheses = search_batch(decoder, batch, rules, clock, times, sync_debug);
    decoded = finish_batch(*model.tokenizer, batch, hypotheses, rules, clock, times);
    if (confidence != nullptr) add_evidence(*confidence, batch, decoded, clock, times);
  }
  decoded.counters = decoder.counters();
  return decoded;
}

}  // namespace rtfx
