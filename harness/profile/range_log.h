// Writes down when the ranges of base/nvtx.h began and ended, on the time line of a profile.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/nvtx.h"
#include "harness/profile/profile_figures.h"

namespace rtfx {

using LoggedRange = NamedSpan;

/// Whether profiles keep figures of it: regions, phases and the harness's own waits.
bool is_logged(RangeName name);

/// Names other than "wait", in the order of first appearance.
std::vector<std::string> range_names(const std::vector<LoggedRange>& ranges);
std::vector<Span> spans_named(const std::vector<LoggedRange>& ranges, std::string_view name);

/// Listens from construction to destruction, on the constructing thread alone, to ranges that
/// are logged, and to segments.
///
/// With `drain` a decoder phase ("decode.loop") lasts until its work on the device is done. The
/// harness waits for it, or this log does, where anything else comes first. So the next phase
/// begins with an idle device, as regions do anyway. It does not wait while the stream is being
/// captured into a CUDA graph.
class RangeLog final : public RangeListener {
 public:
  using Clock = std::function<int64_t()>;  // ns

  RangeLog(Clock clock, at::Device device, bool drain);
  ~RangeLog();
  RangeLog(const RangeLog&) = delete;
  RangeLog& operator=(const RangeLog&) = delete;

  void opened(RangeName name) noexcept override;
  void closed(RangeName name) noexcept override;

  /// False where a range could not be written down or waited for.
  bool complete() const { return complete_; }
  /// In the order in which they began, all closed. "wait" for the harness's own waits too.
  const std::vector<LoggedRange>& ranges() const { return ranges_; }
  /// With `drain`: segments ("encoder.attention", "decode.joint") of regions, on the host's time
  /// line, likewise.
  const std::vector<LoggedRange>& segments() const { return segments_; }

 private:
  void drain();
  void end_phase();
  void begin(RangeName name, std::vector<LoggedRange>& ranges, std::vector<size_t>& open);

  Clock clock_;
  at::Device device_;
  bool drain_, with_segments_, complete_ = true;
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<LoggedRange> ranges_;
  std::vector<size_t> open_;  // indices of ranges_
  std::vector<LoggedRange> segments_;
  std::vector<size_t> open_segments_;
  std::optional<size_t> ended_phase_;  // by the host, not yet by the device
};

}  // namespace rtfx
