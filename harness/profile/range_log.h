// Records when the ranges of base/nvtx.h began and ended, on the time line of a profile.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/nvtx.h"
#include "harness/profile/profile_figures.h"

namespace rtfx {

using LoggedRange = NamedSpan;

/// Returns whether profiles keep figures of the range: true for regions, phases and the harness's
/// own waits.
bool is_logged(RangeName name);

/// Returns the names except "wait", in the order of first appearance.
std::vector<std::string> range_names(const std::vector<LoggedRange>& ranges);
std::vector<Span> spans_named(const std::vector<LoggedRange>& ranges, std::string_view name);

/// Records logged ranges and segments on the thread that constructs it, until it is destroyed.
///
/// With `drain`, a decoder phase ("decode.loop") lasts until its work on the device is done. The
/// harness waits for the work, or else this log does before the next range begins. So each phase
/// begins with an idle device, as each region does in any case. The log does not wait while the
/// stream is being captured into a CUDA graph.
class RangeLog final : public RangeListener {
 public:
  using Clock = std::function<int64_t()>;  // nanoseconds

  RangeLog(Clock clock, at::Device device, bool drain);
  ~RangeLog();
  RangeLog(const RangeLog&) = delete;
  RangeLog& operator=(const RangeLog&) = delete;

  void opened(RangeName name) noexcept override;
  void closed(RangeName name) noexcept override;

  /// Returns false if a range could not be recorded or waited for.
  bool complete() const { return complete_; }
  /// Returns all ranges, closed, in the order in which they began. Includes "wait" for the
  /// harness's own waits.
  const std::vector<LoggedRange>& ranges() const { return ranges_; }
  /// Returns the segments ("encoder.attention", "decode.joint") of regions in the same order. They
  /// are recorded only with `drain`, on the host's time line.
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
  std::vector<size_t> open_;  // indices into ranges_
  std::vector<LoggedRange> segments_;
  std::vector<size_t> open_segments_;
  std::optional<size_t> ended_phase_;  // a phase that the host has ended and the device has not
};

}  // namespace rtfx
