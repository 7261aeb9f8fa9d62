// NVTX ranges of the domain "rtfx". A profiler shows them beside the CUDA calls. They cost nothing
// without a profiler, and need no GPU. docs/reference/profiling.md shows how the ranges are nested.
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

/// All names of ranges. The list is closed, so that a profiler can add ranges up by name. Some
/// ranges have a payload of one or two counts, which the comments name.
enum class RangeName : uint8_t {
  // Regions (speech/pipeline/pipeline.h), in the order in which data pass through them. The payload
  // is the number of rows.
  pad,
  h2d,
  features,
  encoder,
  decode,
  d2h,
  detokenize,
  confidence,
  // Work that is not timed.
  load,     // reading a dataset
  prepare,  // preparing a model and its decoders
  record,   // recording a CUDA graph
  align,    // alignment of the texts of a batch with its frames; payload: rows
  warm_up,  // rounds before the measured rounds
  // A round is a pass over a dataset.
  round,  // payload: number of the round, from 0
  batch,  // payload: rows, and encoder frames of the longest row
  // Parts of "encoder". They exist only where the host launches these parts one by one.
  encoder_subsampling,
  encoder_norm,
  encoder_feed_forward,
  encoder_attention,
  encoder_convolution,
  // Phases of a decoder, one after the other within "decode". The payload is the number of rows.
  decode_project,
  decode_loop,
  decode_objects,  // a decoder in Python makes the objects that its users get
  decode_results,  // a decoder in Python makes the result that the program reads
  // Parts of "decode.loop" that the host runs or launches. The payload is their number within the
  // search, from 0. The payload of decode_row is the row's number in the batch.
  decode_init,
  decode_frame,    // work at the begin or end of a frame
  decode_joint,    // a call of the joint network
  decode_predict,  // a call of the prediction network
  decode_step,     // a pass through the innermost loop
  decode_graph,    // the launch of a graph that holds all loops
  decode_row,      // the whole search of a row, where rows are searched one by one
  decode_trace_back,
  // The host waits for the device.
  wait,       // the wait at the end of a region
  host_read,  // a wait of a decoder; payload: its waits in this batch so far, this one included
};

/// The category of a range, which gives the range its colour. NVTX counts categories from 1.
enum class RangeKind : uint8_t { run = 1, batch, region, phase, segment, wait };

struct RangeInfo {
  const char* name;
  RangeKind kind;
};

inline constexpr std::array<RangeInfo, 34> kRanges = {{
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
static_assert(kRanges.size() == static_cast<size_t>(RangeName::host_read) + 1);

constexpr const RangeInfo& info_of(RangeName name) { return kRanges[static_cast<size_t>(name)]; }

/// Returns the range of that name. Returns nullopt for a name that kRanges lacks, such as that of
/// a case.
constexpr std::optional<RangeName> range_named(std::string_view name) {
  for (size_t i = 0; i < kRanges.size(); ++i)
    if (name == kRanges[i].name) return static_cast<RangeName>(i);
  return std::nullopt;
}

/// Is called at the begin and end of every range of kRanges in this process (`rtfx
/// profile`). Calls come from the range's thread.
class RangeListener {
 public:
  virtual void opened(RangeName name) noexcept = 0;
  virtual void closed(RangeName name) noexcept = 0;

 protected:
  ~RangeListener() = default;
};

/// The only listener, or null in all subcommands but `rtfx profile`. A range that opens while there
/// is a listener also tells it when the range closes.
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
  /// Opens RangeName::batch.
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

  std::variant<NamedRange, BatchRange> range_;  // opens before the listener is called
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
