#include "harness/profile/range_log.h"

#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <algorithm>
#include <string_view>

#include "speech/runtime/device.h"

namespace rtfx {
namespace {

constexpr std::string_view kWait = info_of(RangeName::wait).name;

/// LibTorch has loaded the CUDA runtime; rtfx itself does not link it.
bool is_capturing(at::Device device) {
  using Function = int (*)(cudaStream_t, int*);
  static const auto function =
      reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cudaStreamIsCapturing"));
  int status = 0;
  if (function == nullptr) return false;
  const int error = function(c10::cuda::getCurrentCUDAStream(device.index()).stream(), &status);
  return error != 0 || status != 0;
}

bool is_segment(RangeName name) { return info_of(name).kind == RangeKind::segment; }

}  // namespace

bool is_logged(RangeName name) {
  const RangeKind kind = info_of(name).kind;
  return kind == RangeKind::region || kind == RangeKind::phase || name == RangeName::wait;
}

std::vector<std::string> range_names(const std::vector<LoggedRange>& ranges) {
  std::vector<std::string> out;
  for (const LoggedRange& range : ranges) {
    if (range.name != kWait && std::find(out.begin(), out.end(), range.name) == out.end())
      out.push_back(range.name);
  }
  return out;
}

std::vector<Span> spans_named(const std::vector<LoggedRange>& ranges, std::string_view name) {
  std::vector<Span> out;
  for (const LoggedRange& range : ranges) {
    if (range.name == name) out.push_back(range.time);
  }
  return out;
}

RangeLog::RangeLog(Clock clock, at::Device device, bool drain)
    : clock_(std::move(clock)),
      device_(device),
      drain_(drain && device.is_cuda()),
      with_segments_(drain) {
  range_listener.store(this, std::memory_order_release);
}

RangeLog::~RangeLog() { range_listener.store(nullptr, std::memory_order_release); }

void RangeLog::drain() {
  if (!ended_phase_ || is_capturing(device_)) return;
  const int64_t begin = clock_();
  synchronize(device_);
  ranges_.push_back({std::string(kWait), {begin, clock_()}});
  end_phase();
}

void RangeLog::end_phase() {
  if (ended_phase_) ranges_[*ended_phase_].time.end = clock_();
  ended_phase_.reset();
}

void RangeLog::begin(RangeName name, std::vector<LoggedRange>& ranges, std::vector<size_t>& open) {
  open.push_back(ranges.size());
  ranges.push_back({info_of(name).name, {0, 0}});
  ranges.back().time.begin = clock_();
}

// A range must not throw. An error here makes the log incomplete.
void RangeLog::opened(RangeName name) noexcept try {
  if (std::this_thread::get_id() != thread_) return;
  // Outside of regions, the encoder of a stand-in makes frames that are not timed.
  if (is_segment(name) && with_segments_ && !open_.empty()) begin(name, segments_, open_segments_);
  if (!is_logged(name)) return;
  if (name != RangeName::wait) drain();
  begin(name, ranges_, open_);
} catch (...) {
  complete_ = false;
}

void RangeLog::closed(RangeName name) noexcept try {
  if (std::this_thread::get_id() != thread_) return;
  if (is_segment(name) && !open_segments_.empty()) {
    segments_[open_segments_.back()].time.end = clock_();
    open_segments_.pop_back();
  }
  if (!is_logged(name) || open_.empty()) return;
  name == RangeName::wait ? end_phase() : drain();
  const size_t index = open_.back();
  ranges_[index].time.end = clock_();
  open_.pop_back();
  const bool phase = info_of(name).kind == RangeKind::phase;
  if (drain_ && phase && !is_capturing(device_)) ended_phase_ = index;
} catch (...) {
  complete_ = false;
}

}  // namespace rtfx
