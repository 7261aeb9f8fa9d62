// NVTX ranges of the domain "rtfx": what a profiler shows of this program besides CUDA. Free of
// cost without a profiler; needs no GPU. docs/reference/profiling.md shows how the ranges lie
// within each other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <nvtx3/nvtx3.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace rtfx {

/// The closed vocabulary, so that a profiler can add ranges up by name. Behind each: its payload,
/// counts of a range that has one.
enum class RangeName : uint8_t {
  // Regions (speech/pipeline/pipeline.h), in the order in which data pass through them: rows.
  pad,
  h2d,
  features,
  encoder,
  decode,
  d2h,
  detokenize,
  confidence,
  // Ranges of work that is not timed.
  load,     // reading a dataset
  prepare,  // of a model and its decoders
  record,   // of a CUDA graph
  align,    // the texts of a batch with its frames: rows
  warm_up,  // rounds before those that are measured
  // A pass over a dataset, and a batch.
  round,  // its number, from 0
  batch,  // rows, and encoder frames of the longest
  // Parts of "encoder", as far as the host launches them.
  encoder_subsampling,
  encoder_norm,
  encoder_feed_forward,
  encoder_attention,
  encoder_convolution,
  // Phases of a decoder, one after the other within "decode": rows.
  decode_project,
  decode_loop,
  decode_objects,  // of a decoder in Python: what its users are given
  decode_results,  // and what the program reads
  // Parts of "decode.loop" that the host runs or launches: their
  // number within the search, from 0, but for a row: its number in the batch.
  decode_init,
  decode_frame,    // what a frame begins or ends with
  decode_joint,    // a joint call
  decode_predict,  // a prediction call
  decode_step,     // a pass through the innermost loop
  decode_graph,    // the launch of a graph that holds all loops
  decode_row,      // all of a row, where rows are searched one by one
  decode_trace_back,
  // The host waits for the device.
  wait,       // at the end of a region
  host_read,  // by a decoder: how many it has made in this batch, with this one
};

/// Category of a range, which gives it its colour; from 1, as NVTX counts.
enum class RangeKind : uint8_t { run = 1, batch, region, phase, segment, wait };

struct RangeWord {
  const char* name;
  RangeKind kind;
};

inline constexpr std::array<RangeWord, 34> kVocabulary = {{
    {"pad", RangeKind::region},
    {"h2d", RangeKind::region},
    {"features", RangeKind::region},
    {"encoder", RangeKind::region},
    {"decode", RangeKind::region},
    {"d2h", RangeKind::region},
    {"detokenize", RangeKind::region},
    {"confidence", RangeKind::region},
    {"load", RangeKind::run},
    {"prepare", RangeKind::run},
    {"record", RangeKind::run},
    {"align", RangeKind::run},
    {"warm_up", RangeKind::run},
    {"round", RangeKind::run},
    {"batch", RangeKind::batch},
    {"encoder.subsampling", RangeKind::segment},
    {"encoder.norm", RangeKind::segment},
    {"encoder.feed_forward", RangeKind::segment},
    {"encoder.attention", RangeKind::segment},
    {"encoder.convolution", RangeKind::segment},
    {"decode.project", RangeKind::phase},
    {"decode.loop", RangeKind::phase},
    {"decode.objects", RangeKind::phase},
    {"decode.results", RangeKind::phase},
    {"decode.init", RangeKind::segment},
    {"decode.frame", RangeKind::segment},
    {"decode.joint", RangeKind::segment},
    {"decode.predict", RangeKind::segment},
    {"decode.step", RangeKind::segment},
    {"decode.graph", RangeKind::segment},
    {"decode.row", RangeKind::segment},
    {"decode.trace_back", RangeKind::segment},
    {"wait", RangeKind::wait},
    {"host_read", RangeKind::wait},
}};
static_assert(kVocabulary.size() == static_cast<size_t>(RangeName::host_read) + 1);

constexpr const RangeWord& word_of(RangeName name) {
  return kVocabulary[static_cast<size_t>(name)];
}

/// The range of that name; none outside the vocabulary, as a case's is.
constexpr std::optional<RangeName> range_named(std::string_view name) {
  for (size_t i = 0; i < kVocabulary.size(); ++i)
    if (name == kVocabulary[i].name) return static_cast<RangeName>(i);
  return std::nullopt;
}

/// Is told of every range of the vocabulary in this process (`rtfx profile`). Calls come from the
/// range's thread.
class RangeListener {
 public:
  virtual void opened(RangeName name) noexcept = 0;
  virtual void closed(RangeName name) noexcept = 0;

 protected:
  ~RangeListener() = default;
};

/// At most one; null in all other subcommands. A range tells the listener of its start of its end.
inline std::atomic<RangeListener*> range_listener{nullptr};

/// Payload of a batch.
struct BatchSize {
  int64_t rows = 0, frames = 0;
};

/// The domain of nvtx3 that holds all ranges.
struct NvtxDomain {
  static constexpr const char* name = "rtfx";
};

/// One range on the calling thread, from construction to destruction. It is a class of our own
/// around nvtx3's, because range_listener must hear of it, too.
class ScopedRange {
 public:
  explicit ScopedRange(RangeName name);
  ScopedRange(RangeName name, int64_t count);
  /// RangeName::batch.
  explicit ScopedRange(const BatchSize& size);
  ~ScopedRange();
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;

 private:
  /// A range whose payload has a schema, which nvtx3::event_attributes cannot hold.
  class BatchRange {
   public:
    explicit BatchRange(const BatchSize& size);
    ~BatchRange();
    BatchRange(const BatchRange&) = delete;
    BatchRange& operator=(const BatchRange&) = delete;
  };
  using NamedRange = nvtx3::scoped_range_in<NvtxDomain>;

  void tell_opened();

  std::variant<NamedRange, BatchRange> range_;  // opens before the listener hears of it
  RangeName name_;
  RangeListener* listener_;
};

/// A range with the name of a case, the only names that are made while the program runs.
class CaseRange {
 public:
  explicit CaseRange(const std::string& name);

 private:
  nvtx3::scoped_range_in<NvtxDomain> range_;
};

/// Names the calling thread, in profilers and for the system (which keeps 15 bytes).
void name_thread(const char* name);

}  // namespace rtfx
