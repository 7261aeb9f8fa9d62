#include "harness/profile/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace rtfx {
namespace {

// Tracks are shown in the order of their numbers.
constexpr int64_t kRegionTrack = 1, kCallTrack = 10, kKernelTrack = 1000, kCopyTrack = 2000;

double microseconds(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Numbers the streams or threads of a case from 0, by their ids.
class Numbers {
 public:
  template <typename Run, typename Id>
  Numbers(const std::vector<Run>& runs, Id id) {
    for (const Run& run : runs) numbers_[id(run)] = 0;
    int64_t next = 0;
    for (auto& [key, number] : numbers_) number = next++;
  }
  int64_t of(uint32_t id) const { return numbers_.at(id); }
  const std::map<uint32_t, int64_t>& all() const { return numbers_; }

 private:
  std::map<uint32_t, int64_t> numbers_;
};

}  // namespace

TraceFile::TraceFile(int64_t limit, size_t cases)
    : budget_(std::max<int64_t>(1, limit / static_cast<int64_t>(std::max<size_t>(1, cases)))) {}

void TraceFile::add(const std::string& line) {
  text_ += text_.empty() ? "" : ",\n";
  text_ += line;
}

void TraceFile::add_metadata(const std::string& what, int64_t track, const std::string& value) {
  add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", process_,
                  track, what, quoted(value)));
}

void TraceFile::add_case(const std::string& name, const std::vector<LoggedRange>& ranges,
                         const Activity& activity, int64_t until) {
  ++process_;
  if (process_ == 1 && !ranges.empty()) origin_ = ranges.front().time.begin;
  const Numbers threads(activity.calls, [](const CallRun& run) { return run.thread; });
  const Numbers kernels(activity.kernels, [](const KernelRun& run) { return run.stream; });
  const Numbers copies(activity.copies, [](const CopyRun& run) { return run.stream; });
  add_metadata("process_name", 0, name);
  add_metadata("thread_name", kRegionTrack, "regions");
  for (const auto& [id, number] : threads.all())
    add_metadata("thread_name", kCallTrack + number, fmt::format("CUDA calls, thread {}", id));
  for (const auto& [id, number] : kernels.all())
    add_metadata("thread_name", kKernelTrack + number, fmt::format("kernels, stream {}", id));
  for (const auto& [id, number] : copies.all())
    add_metadata("thread_name", kCopyTrack + number, fmt::format("copies, stream {}", id));

  std::vector<Event> events;
  events.reserve(activity.kernels.size() + activity.copies.size() + activity.calls.size());
  for (const KernelRun& run : activity.kernels)
    events.push_back({run.time, kKernelTrack + kernels.of(run.stream), &activity.names[run.name]});
  for (const CopyRun& run : activity.copies)
    events.push_back(
        {run.time, kCopyTrack + copies.of(run.stream), &activity.names[run.name], run.bytes});
  for (const CallRun& run : activity.calls)
    events.push_back({run.time, kCallTrack + threads.of(run.thread), &activity.names[run.name]});
  const auto earlier = [](const Event& a, const Event& b) { return a.time.begin < b.time.begin; };
  std::stable_sort(events.begin(), events.end(), earlier);

  std::vector<Event> all;
  all.reserve(ranges.size() + events.size());
  for (const LoggedRange& range : ranges) all.push_back({range.time, kRegionTrack, &range.name});
  all.insert(all.end(), events.begin(), events.end());
  std::erase_if(all, [&](const Event& event) { return event.time.begin >= until; });
  const auto kept = std::min<size_t>(all.size(), static_cast<size_t>(budget_));
  left_out_ += static_cast<int64_t>(all.size() - kept);
  written_ += static_cast<int64_t>(kept);
  for (size_t i = 0; i < kept; ++i) {
    const Event& e = all[i];
    add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{}{}}})",
                    process_, e.track, microseconds(e.time.begin - origin_),
                    microseconds(e.time.length()), quoted(*e.name),
                    e.bytes == 0 ? "" : fmt::format(R"(,"args":{{"bytes":{}}})", e.bytes)));
  }
}

void TraceFile::write(const std::filesystem::path& path) const {
  write_file(path,
             fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"left_out_events\":{}}},\n"
                         "\"traceEvents\":[\n{}\n]}}\n",
                         left_out_, text_));
}

}  // namespace rtfx
