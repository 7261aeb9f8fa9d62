#include "harness/profile/profile_figures.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace rtfx {
namespace {

bool starts_earlier(const Span& a, const Span& b) { return a.begin < b.begin; }

/// Returns the index of the window that contains `time`; windows.size() if there is none. Windows
/// are sorted and disjoint.
size_t window_of(int64_t time, const std::vector<Span>& windows) {
  const auto after =
      std::upper_bound(windows.begin(), windows.end(), Span{time, time}, starts_earlier);
  if (after == windows.begin()) return windows.size();
  const auto found = std::prev(after);
  return time < found->end ? static_cast<size_t>(found - windows.begin()) : windows.size();
}

void add_run(KernelFigures& same, int64_t length) {
  same.least = same.count == 0 ? length : std::min(same.least, length);
  same.most = std::max(same.most, length);
  same.total += length;
  ++same.count;
}

/// Returns the `top` kernels by total time, longest first.
std::vector<KernelFigures> longest(std::map<std::string, KernelFigures> by_name, size_t top) {
  std::vector<KernelFigures> list;
  for (auto& [name, figures] : by_name) {
    figures.name = name;
    list.push_back(std::move(figures));
  }
  std::ranges::stable_sort(list, std::greater<>(), &KernelFigures::total);
  if (list.size() > top) list.resize(top);
  return list;
}

/// Returns the longest part of the windows that no span of work covers. Both lists are sorted and
/// disjoint.
int64_t longest_gap(const std::vector<Span>& windows, const std::vector<Span>& work) {
  int64_t most = 0;
  for (const Span& window : windows) {
    int64_t reached = window.begin;
    auto span = std::ranges::upper_bound(work, window.begin, {}, &Span::end);
    for (; span != work.end() && span->begin < window.end; ++span) {
      most = std::max(most, span->begin - reached);
      reached = span->end;
    }
    most = std::max(most, window.end - reached);
  }
  return most;
}

void add_kernels(RegionFigures& figures, const Activity& activity, const std::vector<Span>& windows,
                 size_t top) {
  std::map<std::string, KernelFigures> by_name;
  for (const KernelRun& kernel : activity.kernels) {
    if (window_of(kernel.time.begin, windows) == windows.size()) continue;
    ++figures.kernels;
    figures.graph_kernels += kernel.in_graph ? 1 : 0;
    figures.kernel_time += kernel.time.length();
    add_run(by_name[activity.names[kernel.name]], kernel.time.length());
  }
  figures.top = longest(std::move(by_name), top);
}

/// Counts the calls. Returns the mean interval between launches in a window, or 0 if there is none.
double add_calls(RegionFigures& figures, const Activity& activity, const std::vector<Span>& windows,
                 const std::vector<Span>& ignored, size_t top) {
  std::map<std::string, KernelFigures> by_name;
  std::vector<int64_t> last(windows.size(), -1);
  int64_t intervals = 0, interval_time = 0;
  for (const CallRun& call : outermost(activity.calls)) {
    const size_t window = window_of(call.time.begin, windows);
    if (window == windows.size() || window_of(call.time.begin, ignored) < ignored.size()) continue;
    add_run(by_name[activity.names[call.name]], call.time.length());
    if (call.kind == CallKind::synchronize) {
      ++figures.synchronizations;
      figures.synchronization_time += call.time.length();
    }
    if (call.kind == CallKind::graph_launch) ++figures.graph_launches;
    if (call.kind != CallKind::launch) continue;
    ++figures.launches;
    if (last[window] >= 0) {
      ++intervals;
      interval_time += call.time.begin - last[window];
    }
    last[window] = call.time.begin;
  }
  figures.calls = longest(std::move(by_name), top);
  return intervals == 0 ? 0 : static_cast<double>(interval_time) / static_cast<double>(intervals);
}

std::optional<double> ratio(int64_t part, int64_t whole) {
  if (whole <= 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

template <typename Run>
std::vector<Span> spans_of(const std::vector<Run>& runs) {
  std::vector<Span> spans;
  spans.reserve(runs.size());
  for (const Run& run : runs) spans.push_back(run.time);
  return spans;
}

/// Returns the span from the first kernel to the last of each run of a graph. Kernels without a
/// known call are left out.
std::vector<Span> graph_spans(const Activity& activity) {
  std::set<uint32_t> launches;
  for (const CallRun& call : activity.calls)
    if (call.kind == CallKind::graph_launch) launches.insert(call.id);
  std::map<uint32_t, Span> runs;
  for (const KernelRun& kernel : activity.kernels) {
    if (!kernel.in_graph || !launches.contains(kernel.call)) continue;
    Span& run = runs.try_emplace(kernel.call, kernel.time).first->second;
    run.begin = std::min(run.begin, kernel.time.begin);
    run.end = std::max(run.end, kernel.time.end);
  }
  std::vector<Span> spans;
  for (const auto& [call, run] : runs) spans.push_back(run);
  return spans;
}

/// Returns "float" for "ns::kernel<float, (int)5>(ns::Search)". For a class, it is the name without
/// namespaces. `kernel` is the name without template arguments.
std::string first_template_argument(std::string_view name, const std::string& kernel) {
  const std::string opening = kernel.substr(kernel.rfind(':') + 1) + "<";
  const size_t at = name.find(opening);
  if (at == name.npos) return "";
  std::string argument;
  for (const char c : name.substr(at + opening.size())) {
    if (c == ',' || c == '<' || c == '>' || c == '(') break;
    c == ':' ? argument.clear() : argument.push_back(c);
  }
  return argument;
}

}  // namespace

std::vector<KernelFigures> kernels_by_range(const Activity& activity,
                                            const std::vector<NamedSpan>& ranges) {
  std::vector<CallRun> calls = activity.calls;
  std::ranges::stable_sort(calls, {}, [](const CallRun& call) { return call.time.begin; });
  const auto from = [&](int64_t time) {
    return std::ranges::lower_bound(calls, time, {}, [](const CallRun& c) { return c.time.begin; });
  };
  std::map<uint32_t, const std::string*> owners;  // indexed by call; a later range is the inner one
  for (const NamedSpan& range : ranges) {
    const auto end = from(range.time.end);
    for (auto call = from(range.time.begin); call < end; ++call) owners[call->id] = &range.name;
  }
  std::map<std::string, KernelFigures> by_name;
  for (const KernelRun& kernel : activity.kernels) {
    const auto owner = owners.find(kernel.call);
    if (owner != owners.end()) add_run(by_name[*owner->second], kernel.time.length());
  }
  const size_t all = by_name.size();
  return longest(std::move(by_name), all);
}

std::optional<double> RegionFigures::busy_share() const { return ratio(busy, wall); }
std::optional<double> RegionFigures::busy_copies_share() const { return ratio(busy_copies, wall); }
std::optional<double> RegionFigures::occupied_share() const { return ratio(occupied, wall); }
std::optional<double> RegionFigures::kernel_mean() const { return ratio(kernel_time, kernels); }

std::vector<Span> merged(std::vector<Span> spans) {
  std::erase_if(spans, [](const Span& span) { return span.end <= span.begin; });
  std::sort(spans.begin(), spans.end(), starts_earlier);
  std::vector<Span> out;
  for (const Span& span : spans) {
    if (!out.empty() && span.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, span.end);
    } else {
      out.push_back(span);
    }
  }
  return out;
}

int64_t covered(std::vector<Span> spans, std::vector<Span> windows) {
  const std::vector<Span> a = merged(std::move(spans)), b = merged(std::move(windows));
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t common = std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin);
    total += std::max<int64_t>(0, common);
    a[i].end < b[j].end ? ++i : ++j;
  }
  return total;
}

std::vector<int64_t> sums_by_lap(const std::vector<Span>& parts, const std::vector<Span>& laps) {
  std::vector<int64_t> sums(laps.size());
  for (const Span& part : parts) {
    const size_t lap = window_of(part.begin, laps);
    if (lap < laps.size()) sums[lap] += part.length();
  }
  return sums;
}

std::vector<Span> kernels_in(const Activity& activity, const std::vector<Span>& windows) {
  const std::vector<Span> sorted = merged(windows);
  std::vector<Span> kernels;
  for (const KernelRun& kernel : activity.kernels) {
    if (window_of(kernel.time.begin, sorted) < sorted.size()) kernels.push_back(kernel.time);
  }
  return kernels;
}

RegionFigures region_figures(const Activity& activity, const std::vector<Span>& windows,
                             const std::vector<Span>& ignored, size_t top) {
  RegionFigures figures;
  const std::vector<Span> sorted = merged(windows);
  for (const Span& window : sorted) figures.wall += window.length();
  std::vector<Span> work = spans_of(activity.kernels);
  figures.busy = covered(work, sorted);
  const std::vector<Span> copies = spans_of(activity.copies);
  work.insert(work.end(), copies.begin(), copies.end());
  figures.busy_copies = covered(work, sorted);
  figures.longest_gap = longest_gap(sorted, merged(work));
  const std::vector<Span> graphs = graph_spans(activity);
  work.insert(work.end(), graphs.begin(), graphs.end());
  figures.occupied = covered(std::move(work), sorted);
  for (const CopyRun& copy : activity.copies) {
    if (window_of(copy.time.begin, sorted) == sorted.size()) continue;
    ++figures.copies;
    figures.copied_bytes += copy.bytes;
  }
  add_kernels(figures, activity, sorted, top);
  const double interval = add_calls(figures, activity, sorted, merged(ignored), top);
  if (interval > 0 && figures.graph_launches == 0 && figures.kernel_mean())
    figures.idle_launch = std::max(0.0, 1 - *figures.kernel_mean() / interval);
  return figures;
}

std::vector<CallRun> outermost(std::vector<CallRun> calls) {
  std::sort(calls.begin(), calls.end(), [](const CallRun& a, const CallRun& b) {
    return a.time.begin != b.time.begin ? a.time.begin < b.time.begin : a.time.end > b.time.end;
  });
  std::map<uint32_t, int64_t> end_of_thread;
  std::vector<CallRun> out;
  for (const CallRun& call : calls) {
    const auto [end, first] = end_of_thread.try_emplace(call.thread, call.time.end);
    if (!first && call.time.begin < end->second && call.time.end <= end->second) continue;
    end->second = call.time.end;
    out.push_back(call);
  }
  return out;
}

CallKind classify_call(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("GraphLaunch")) return CallKind::graph_launch;
  if (has("Synchronize")) return CallKind::synchronize;
  if ((name.starts_with("cudaLaunch") || name.starts_with("cuLaunch")) && !has("HostFunc"))
    return CallKind::launch;
  return CallKind::other;
}

std::string short_call_name(std::string_view name) {
  for (const std::string_view mark : {"_v", "_pt"}) {
    for (size_t at = name.find(mark); at != name.npos; at = name.find(mark, at + 1)) {
      const std::string_view rest = name.substr(at + mark.size());
      const bool version = mark == "_v" && !rest.empty() && rest[0] >= '0' && rest[0] <= '9';
      if (version || rest.starts_with("sz") || rest.starts_with("ds")) name = name.substr(0, at);
    }
  }
  return std::string(name);
}

std::string short_kernel_name(std::string_view name) {
  // the first form is that of the C++ demangler, the second one that of Nsight Compute
  constexpr std::string_view kAnonymous[] = {"(anonymous namespace)::", "<unnamed>::"};
  std::string flat;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto unnamed = std::ranges::find_if(
        kAnonymous, [&](std::string_view one) { return name.substr(i).starts_with(one); });
    if (depth == 0 && unnamed != std::end(kAnonymous)) {
      i += unnamed->size() - 1;
    } else if (name[i] == '<') {
      ++depth;
    } else if (name[i] == '>') {
      if (depth > 0) --depth;
    } else if (depth == 0) {
      if (name[i] == '(') break;
      flat += name[i];
    }
  }
  while (!flat.empty() && flat.back() == ' ') flat.pop_back();
  const size_t space = flat.rfind(' ');
  if (space != flat.npos) flat = flat.substr(space + 1);
  const std::string argument =
      flat.starts_with("rtfx::") ? first_template_argument(name, flat) : "";
  return argument.empty() ? flat : flat + "<" + argument + ">";
}

}  // namespace rtfx
