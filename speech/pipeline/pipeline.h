// The four steps from samples to text. `transcribe` and everything that measures share them, region
// by region or with batches in flight (overlapped_pipeline.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/result_check.h"
#include "algorithms/shared/confidence/confidence.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "speech/pipeline/recorded_encoder.h"

namespace rtfx {

/// The closed list of the regions that are timed. Each region is an NVTX range of the same name.
/// pad puts the samples of a batch into memory that the device can read, and h2d copies them to the
/// device. confidence occurs only where a configuration asks for it.
enum class Region { pad, h2d, features, encoder, decode, d2h, detokenize, confidence };
constexpr size_t kRegions = 8;
constexpr RangeName range_of(Region region) { return static_cast<RangeName>(region); }
static_assert(range_of(Region::confidence) == RangeName::confidence);

constexpr std::array<const char*, kRegions> kRegionNames = [] {
  std::array<const char*, kRegions> names{};
  for (size_t i = 0; i < kRegions; ++i) names[i] = kRanges[i].name;
  return names;
}();

/// The seconds of each region. `device` is the time between CUDA events around the region, and
/// stays 0 on the CPU.
struct RegionTimes {
  /// A region that was enqueued without waiting for its end.
  struct Enqueued {
    Region region;
    std::shared_ptr<c10::Event> begin, end;
  };

  std::array<double, kRegions> host{};
  std::array<double, kRegions> device{};
  /// Seconds from before the first region to after the last, by a separate clock (WallClock). It
  /// includes the time between regions.
  double wall = 0;
  double cpu = 0;  // CPU seconds in this time of all threads, also of those that wait
  std::vector<Enqueued> enqueued;

  double& seconds(Region region) { return host[static_cast<size_t>(region)]; }
  double seconds(Region region) const { return host[static_cast<size_t>(region)]; }
  double total() const;
  /// Adds the times of enqueued regions to `device`, and waits for their end.
  void settle();
  /// Both must be settled.
  RegionTimes& operator+=(const RegionTimes& other);
  /// This must be settled.
  RegionTimes& operator/=(double count);
};

/// Adds the time from its construction to its destruction to `times.wall`, and the CPU time of the
/// process to `times.cpu`.
class WallClock {
 public:
  explicit WallClock(RegionTimes& times);
  ~WallClock();
  WallClock(const WallClock&) = delete;
  WallClock& operator=(const WallClock&) = delete;

 private:
  RegionTimes& times_;
  std::chrono::steady_clock::time_point begin_;
  double cpu_begin_;
};

class RegionClock {
 public:
  /// Says whether a region ends with a wait for the device.
  enum class Mode { isolated, overlapped };

  explicit RegionClock(at::Device device, Mode mode = Mode::isolated)
      : device_(device), mode_(mode) {}

  /// Runs `work` inside the region's NVTX range and adds its time. `rows` are those of the batch.
  /// In isolated mode, the device is idle at the start (as every region leaves it) and at the end.
  /// In overlapped mode, nothing waits. The host's time is then only that of `work`, and
  /// RegionTimes::settle() adds the device's time.
  void measure(Region region, size_t rows, RegionTimes& times,
               const std::function<void()>& work) const;

 private:
  at::Device device_;
  Mode mode_;
};

/// An utterance of a batch.
struct ClipOfBatch {
  // NOLINTBEGIN(google-explicit-constructor): samples alone are an utterance that states no prompt.
  ClipOfBatch(std::span<const float> samples, std::optional<int64_t> prompt = std::nullopt)
      : samples(samples), prompt(prompt) {}
  ClipOfBatch(const std::vector<float>& samples) : samples(samples) {}
  // NOLINTEND(google-explicit-constructor)

  std::span<const float> samples;  // mono, at the model's rate; must outlive the call
  std::optional<int64_t> prompt;   // prompt of the utterance, for models with prompts
};
using Clips = std::vector<ClipOfBatch>;

/// Returns the sizes that a batch's NVTX range shows.
BatchSize batch_size(const AcousticModel& model, const Clips& clips);

/// Pinned memory for samples, which one batch after the other uses. LibTorch's allocator would
/// reuse memory only where both sizes have the same next power of two.
class PinnedMemory {
 public:
  /// Returns [count] float32 with undefined values. It overwrites the result of the previous call.
  at::Tensor take(int64_t count);

 private:
  at::Tensor memory_;
};

/// A batch in the memory of the host and of the device.
struct CopiedBatch {
  at::Tensor host, host_lengths;       // [B, longest] float32, [B] int64; pinned for a GPU
  at::Tensor host_prompts;             // [B] int64; undefined for a model without prompts
  at::Tensor audio, lengths, prompts;  // copies on the model's device
  std::vector<int64_t> lengths_host;   // lengths in encoder frames
};

/// The results of decode, d2h, detokenize and confidence for one batch.
struct Decoded {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::string> texts;
  /// The evidence of each row's hypothesis, then of the entries of its n-best list. A row with a
  /// NaN has none. The list is empty without add_evidence().
  std::vector<std::vector<TokenEvidence>> evidence;
  Counters counters;
};

/// The following functions are the steps of a batch. Each adds the time of its regions to `times`,
/// and waits for the device if the clock does. A decoder may also wait by itself. finish_batch()
/// always waits, since it needs the result on the host.

/// Runs pad and h2d. They fill one piece of memory (pinned for a GPU), with zeros after each clip,
/// and copy it. For a GPU, `memory` receives the samples. The copy of the batch before must then
/// have ended. With null, and on a CPU, the batch has memory of its own.
CopiedBatch copy_batch(const AcousticModel& model, const Clips& clips, const RegionClock& clock,
                       RegionTimes& times, PinnedMemory* memory = nullptr);
/// Runs features and encoder. `encoder` belongs to `model`.
Encoded encode_copied(const AcousticModel& model, RecordedEncoder& encoder,
                      const CopiedBatch& copied, const RegionClock& clock, RegionTimes& times);
/// Runs decode. With `sync_debug`, an undeclared wait for the device throws
/// (algorithms/gpu/host_read.h). Throws WrongResult for a result without the shape that the
/// contract requires.
Hypotheses search_batch(Decoder& decoder, const EncodedBatch& batch, const ResultRules& rules,
                        const RegionClock& clock, RegionTimes& times, bool sync_debug);
/// Runs d2h and detokenize. Throws WrongResult for a result whose values break the contract.
Decoded finish_batch(const Tokenizer& tokenizer, const EncodedBatch& batch,
                     const Hypotheses& hypotheses, const ResultRules& rules,
                     const RegionClock& clock, RegionTimes& times);

/// Runs confidence, which fills decoded.evidence. `batch` is the one that the decoder read. Waits
/// for the device.
void add_evidence(const Confidence& confidence, const EncodedBatch& batch, Decoded& decoded,
                  const RegionClock& clock, RegionTimes& times);

/// Returns the problem that an error about a row names if the row is marked `nan`. A search over a
/// decoding graph also marks rows without a path, and a search with a language model those where it
/// rules out all hypotheses.
std::string nan_problem(const Decoder& decoder);

/// Returns the remedy that an error about NaN in the emissions names.
std::string remedy_for_nan(const AcousticModel& model);

/// Runs the first two steps, and adds all of their time (wall). The device is idle on return.
/// `memory` is that of copy_batch().
EncodedBatch encode_batch(const AcousticModel& model, RecordedEncoder& encoder, const Clips& clips,
                          const RegionClock& clock, RegionTimes& times,
                          PinnedMemory* memory = nullptr);

/// Runs the last two steps, and adds all of their time (wall), including the checks of the result.
/// `confidence` is null where none is wanted.
Decoded decode_batch(Decoder& decoder, const AcousticModel& model, const EncodedBatch& batch,
                     const ResultRules& rules, const RegionClock& clock, RegionTimes& times,
                     bool sync_debug, const Confidence* confidence = nullptr);

}  // namespace rtfx
