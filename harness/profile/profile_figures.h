// Computes the figures of a profile's regions from time spans. Uses no I/O, no clock and no CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// A span [begin, end) in nanoseconds on one time line.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end - begin; }
};

/// The effect of a call of the CUDA runtime or driver on the device.
enum class CallKind : uint8_t { launch, graph_launch, synchronize, other };

struct KernelRun {
  Span time;
  uint32_t name = 0;  // index into Activity::names
  uint32_t stream = 0;
  bool in_graph = false;
  uint32_t call = 0;  // id of the call that launched it; unknown in bodies of conditional nodes
};

struct CopyRun {  // memcpy or memset
  Span time;
  uint32_t name = 0;
  uint32_t stream = 0;
  uint64_t bytes = 0;
  uint32_t call = 0;  // id of the call that made it
};

struct CallRun {
  Span time;
  uint32_t name = 0;
  uint32_t thread = 0;
  CallKind kind = CallKind::other;
  uint32_t id = 0;
};

/// The name of the "kernel" that stands for a whole run of a CUDA graph.
inline constexpr const char* kWholeGraph = "CUDA graph";

/// All collected records, in any order.
struct Activity {
  std::vector<std::string> names;
  std::vector<KernelRun> kernels;
  std::vector<CopyRun> copies;
  std::vector<CallRun> calls;
};

/// All runs of a kernel, or all calls of a function of CUDA.
struct KernelFigures {
  std::string name;
  int64_t count = 0;
  int64_t total = 0, least = 0, most = 0;  // ns
};

/// Sums over all windows of a region. Times are in nanoseconds.
struct RegionFigures {
  int64_t wall = 0;  // total length of the windows
  /// Time in the windows with a kernel on the device: the union of the kernels' spans.
  int64_t busy = 0;
  int64_t busy_copies = 0;  // time in the windows with a kernel, copy or memset
  /// Time in the windows with one of these, or between the first and last kernel of a graph.
  int64_t occupied = 0;
  int64_t kernels = 0, graph_kernels = 0;  // all kernels, and those that a graph launched
  int64_t kernel_time = 0;                 // sum of the kernels' lengths
  int64_t launches = 0, graph_launches = 0, copies = 0, synchronizations = 0;
  uint64_t copied_bytes = 0;
  int64_t synchronization_time = 0;  // time in which the calling thread waited
  int64_t longest_gap = 0;  // longest time within a window without a kernel, copy or memset
  /// The idle share as it is estimated from kernel and launch times: 1 - mean kernel time / mean
  /// interval between launches, at least 0. Absent if a window has fewer than two launches, or if
  /// graphs launch kernels.
  std::optional<double> idle_launch;
  std::vector<KernelFigures> top;    // sorted by total time, longest first; ties by name
  std::vector<KernelFigures> calls;  // sorted likewise

  /// Absent for an empty window.
  std::optional<double> busy_share() const;
  std::optional<double> busy_copies_share() const;
  std::optional<double> occupied_share() const;
  std::optional<double> kernel_mean() const;  // in nanoseconds
  /// Returns whether a graph was launched and none of its kernels is recorded. `busy` is then too
  /// small.
  bool graphs_unseen() const { return graph_launches > 0 && graph_kernels == 0; }
};

/// A named range of the host, such as a segment.
struct NamedSpan {
  std::string name;
  Span time;
};

/// Returns the number and lengths of the kernels that calls within each named range launched,
/// whenever the kernels ran. `ranges` are in the order in which they began, on one thread. A call
/// belongs to the innermost of nested ranges. The result is sorted by total time, longest first.
/// Names that launched no kernel are left out.
std::vector<KernelFigures> kernels_by_range(const Activity& activity,
                                            const std::vector<NamedSpan>& ranges);

/// Returns sorted and disjoint spans that cover the same time.
std::vector<Span> merged(std::vector<Span> spans);

/// Returns the length of the union of `spans` within the union of `windows`.
int64_t covered(std::vector<Span> spans, std::vector<Span> windows);

/// Returns the figures of a region. A kernel, copy or call belongs to the window in which it
/// begins. Calls within `ignored` (the profiler's own) and driver calls inside a runtime call do
/// not count.
RegionFigures region_figures(const Activity& activity, const std::vector<Span>& windows,
                             const std::vector<Span>& ignored, size_t top);

/// Returns the sum of the lengths of the `parts` that begin in each lap, in nanoseconds.
std::vector<int64_t> sums_by_lap(const std::vector<Span>& parts, const std::vector<Span>& laps);

/// Returns the spans of the kernels that begin in one of the windows.
std::vector<Span> kernels_in(const Activity& activity, const std::vector<Span>& windows);

/// Returns the calls that no other call of the same thread contains, sorted by begin.
std::vector<CallRun> outermost(std::vector<CallRun> calls);

/// `name` is like "cudaLaunchKernel_v7000" or "cuGraphLaunch".
CallKind classify_call(std::string_view name);

/// Shortens "cudaMemcpyAsync_ptsz_v7000" to "cudaMemcpyAsync".
std::string short_call_name(std::string_view name);

/// Returns a demangled kernel name without return type, template arguments, parameters and
/// anonymous namespaces. rtfx's own kernels keep their first template argument, which names the
/// operation.
std::string short_kernel_name(std::string_view name);

}  // namespace rtfx
