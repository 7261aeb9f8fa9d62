// Figures of a profile's regions, computed from time spans alone. No I/O, no clock, no CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

/// Nanoseconds on one time line, [begin, end).
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
  uint32_t call = 0;  // id of the call that launched it, unknown in bodies of conditional nodes
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

/// The "kernel" of a CUDA graph whose run is on record as a whole.
inline constexpr const char* kWholeGraph = "CUDA graph";

/// Everything that was collected, in any order.
struct Activity {
  std::vector<std::string> names;
  std::vector<KernelRun> kernels;
  std::vector<CopyRun> copies;
  std::vector<CallRun> calls;
};

/// All runs of a kernel, or calls of a function of CUDA.
struct KernelFigures {
  std::string name;
  int64_t count = 0;
  int64_t total = 0, least = 0, most = 0;  // ns
};

/// Sums over all windows of a region; times in ns.
struct RegionFigures {
  int64_t wall = 0;         // length of the windows
  int64_t busy = 0;         // of it with a kernel on the device: the union of their spans
  int64_t busy_copies = 0;  // of it with a kernel, copy or memset
  int64_t occupied = 0;     // of it with these or a graph between its first kernel and its last
  int64_t kernels = 0, graph_kernels = 0;  // the latter launched by a graph
  int64_t kernel_time = 0;                 // sum of their spans
  int64_t launches = 0, graph_launches = 0, copies = 0, synchronizations = 0;
  uint64_t copied_bytes = 0;
  int64_t synchronization_time = 0;  // of the calling thread
  int64_t longest_gap = 0;           // within a window, without a kernel, copy or memset
  /// 1 - mean kernel time / mean interval between launches, at least 0: the idle share as it is
  /// estimated from kernel and launch times. Absent with fewer than two launches in a window or
  /// where graphs launch kernels.
  std::optional<double> idle_launch;
  std::vector<KernelFigures> top;    // by total time, longest first; ties by name
  std::vector<KernelFigures> calls;  // likewise

  /// Absent for an empty window.
  std::optional<double> busy_share() const;
  std::optional<double> busy_copies_share() const;
  std::optional<double> occupied_share() const;
  std::optional<double> kernel_mean() const;  // ns
  /// A graph was launched, yet none of its kernels is known: `busy` is too small.
  bool graphs_unseen() const { return graph_launches > 0 && graph_kernels == 0; }
};

/// A range of the host by its name, such as a segment.
struct NamedSpan {
  std::string name;
  Span time;
};

/// The number and lengths of the kernels that calls within each named range launched, whenever they
/// ran. `ranges` are in the order in which they began, on one thread. The
/// innermost of nested ranges has the call. The result is sorted by total time, longest first;
/// names that launched no kernel are left out.
std::vector<KernelFigures> kernels_by_range(const Activity& activity,
                                            const std::vector<NamedSpan>& ranges);

/// Sorted and disjoint spans that cover the same.
std::vector<Span> merged(std::vector<Span> spans);

/// Length of the union of `spans` within the union of `windows`.
int64_t covered(std::vector<Span> spans, std::vector<Span> windows);

/// Figures of a region. A kernel, copy or call counts where it begins. Calls within `ignored` (the
/// profiler's own) and driver calls inside a runtime call do not count.
RegionFigures region_figures(const Activity& activity, const std::vector<Span>& windows,
                             const std::vector<Span>& ignored, size_t top);

/// Sums of the lengths of the `parts` that begin in each lap; ns.
std::vector<int64_t> sums_by_lap(const std::vector<Span>& parts, const std::vector<Span>& laps);

/// Spans of the kernels that begin in one of the windows.
std::vector<Span> kernels_in(const Activity& activity, const std::vector<Span>& windows);

/// The calls that no other call of the same thread contains, sorted by begin.
std::vector<CallRun> outermost(std::vector<CallRun> calls);

/// `name`: "cudaLaunchKernel_v7000", "cuGraphLaunch", ...
CallKind classify_call(std::string_view name);

/// "cudaMemcpyAsync_ptsz_v7000" -> "cudaMemcpyAsync".
std::string short_call_name(std::string_view name);

/// A demangled kernel name without return type, template arguments, parameters and anonymous
/// namespaces. Kernels of rtfx keep their first template argument, which says what they do.
std::string short_kernel_name(std::string_view name);

}  // namespace rtfx
