// From samples to text, in four steps: shared by everything that measures, region by region or with
// batches in flight (overlapped_pipeline.h), and by `transcribe`.
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

/// A closed vocabulary of where the time goes; each region is an NVTX range of the same name.
/// pad: a batch of the utterances' samples in memory that the device can read; h2d: its copy there;
/// confidence: where a configuration asks for it.
enum class Region { pad, h2d, features, encoder, decode, d2h, detokenize, confidence };
constexpr size_t kRegions = 8;
constexpr RangeName range_of(Region region) { return static_cast<RangeName>(region); }
static_assert(range_of(Region::confidence) == RangeName::confidence);

constexpr std::array<const char*, kRegions> kRegionNames = [] {
  std::array<const char*, kRegions> names{};
  for (size_t i = 0; i < kRegions; ++i) names[i] = kVocabulary[i].name;
  return names;
}();

/// Seconds per region. `device`: between CUDA events around the region; stays 0 on the CPU.
struct RegionTimes {
  /// A region that was enqueued without waiting for its end.
  struct Enqueued {
    Region region;
    std::shared_ptr<c10::Event> begin, end;
  };

  std::array<double, kRegions> host{};
  std::array<double, kRegions> device{};
  /// From before the first region to after the last, by a clock of its own (WallClock): what lies
  /// between regions counts too.
  double wall = 0;
  double cpu = 0;  // in the same time, of all threads of the process, those that only wait included
  std::vector<Enqueued> enqueued;

  double& seconds(Region region) { return host[static_cast<size_t>(region)]; }
  double seconds(Region region) const { return host[static_cast<size_t>(region)]; }
  double total() const;
  /// Adds the time of what was enqueued to `device`; waits for its end.
  void settle();
  /// Both are settled.
  RegionTimes& operator+=(const RegionTimes& other);
  /// It is settled.
  RegionTimes& operator/=(double count);
};

/// Adds the time from its construction to its end to `times.wall`, and the process's time on CPUs
/// to `times.cpu`.
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
  /// Whether a region ends with a wait for the device.
  enum class Mode { isolated, overlapped };

  explicit RegionClock(at::Device device, Mode mode = Mode::isolated)
      : device_(device), mode_(mode) {}

  /// Runs `work` inside the region's NVTX range and adds its time. `rows`: of the batch. Isolated,
  /// the device is idle at the start (as every region leaves it) and at the end. Overlapped,
  /// nothing waits: the host's time is that of `work` alone, the device's comes with
  /// RegionTimes::settle().
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

  std::span<const float> samples;  // mono at the model's rate; they must outlive the call
  std::optional<int64_t> prompt;   // that it states (PromptConfig), for models with prompts
};
using Clips = std::vector<ClipOfBatch>;

/// The sizes that a batch's NVTX range shows.
BatchSize batch_size(const AcousticModel& model, const Clips& clips);

/// Pinned memory for samples, which one batch after the other uses. LibTorch's allocator would give
/// a batch the memory of another one only where both sizes have the same power of two above them.
class PinnedMemory {
 public:
  /// [count] float32, undefined values. What was taken before is overwritten.
  at::Tensor take(int64_t count);

 private:
  at::Tensor memory_;
};

/// A batch in the memory of the host and of the device.
struct CopiedBatch {
  at::Tensor host, host_lengths;       // [B, longest] float32, [B] int64; pinned for a GPU
  at::Tensor host_prompts;             // [B] int64; undefined for a model without prompts
  at::Tensor audio, lengths, prompts;  // the same on the model's device
  std::vector<int64_t> lengths_host;   // of the encoder's frames
};

/// decode, d2h, detokenize and confidence of one batch.
struct Decoded {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::string> texts;
  /// The evidence of each row's hypothesis, then of the entries of its n-best list. A row with a
  /// NaN has none. Empty without add_evidence().
  std::vector<std::vector<TokenEvidence>> evidence;
  Counters counters;
};

/// The steps of a batch. Each adds the time of its regions to `times` and waits for the device as
/// the clock does. A decoder may also wait by itself. finish_batch() always waits, since it needs
/// the result on the host.

/// pad and h2d: one (pinned) piece of memory, with zeros behind each clip, and its copy. `memory`:
/// where the samples are put for a GPU, which must have done with those of the batch before; null:
/// in memory of their own.
CopiedBatch copy_batch(const AcousticModel& model, const Clips& clips, const RegionClock& clock,
                       RegionTimes& times, PinnedMemory* memory = nullptr);
/// features and encoder, with `encoder`, which is of `model`.
Encoded encode_copied(const AcousticModel& model, RecordedEncoder& encoder,
                      const CopiedBatch& copied, const RegionClock& clock, RegionTimes& times);
/// decode. `sync_debug`: an undeclared wait for the device throws (algorithms/gpu/host_read.h). A
/// result without the shape that the contract wants is a WrongResult.
Hypotheses search_batch(Decoder& decoder, const EncodedBatch& batch, const ResultRules& rules,
                        const RegionClock& clock, RegionTimes& times, bool sync_debug);
/// d2h and detokenize. A result whose values break the contract is a WrongResult.
Decoded finish_batch(const Tokenizer& tokenizer, const EncodedBatch& batch,
                     const Hypotheses& hypotheses, const ResultRules& rules,
                     const RegionClock& clock, RegionTimes& times);

/// confidence: fills decoded.evidence. `batch`: what the decoder read. Waits for the device.
void add_evidence(const Confidence& confidence, const EncodedBatch& batch, Decoded& decoded,
                  const RegionClock& clock, RegionTimes& times);

/// The problem that an error about a row names, if the row is marked `nan`. A search over a
/// decoding graph marks rows without a path, too.
std::string nan_problem(const Decoder& decoder);

/// The remedy that an error about NaN in the emissions names.
std::string remedy_for_nan(const AcousticModel& model);

/// The first two steps, with all of their time (wall). The device is idle on return.
EncodedBatch encode_batch(const AcousticModel& model, RecordedEncoder& encoder, const Clips& clips,
                          const RegionClock& clock, RegionTimes& times);

/// The last ones, likewise; the checks of the result count as wall time. `confidence`: null for
/// none.
Decoded decode_batch(Decoder& decoder, const AcousticModel& model, const EncodedBatch& batch,
                     const ResultRules& rules, const RegionClock& clock, RegionTimes& times,
                     bool sync_debug, const Confidence* confidence = nullptr);

}  // namespace rtfx
