#include "harness/profile/profile_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "harness/profile/child_process.h"
#include "harness/results/statistics.h"
#include "speech/pipeline/pipeline.h"

namespace rtfx {
namespace {

using record::KernelRuns;
using record::ProfiledRegion;
using Regions = Named<ProfiledRegion>;

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

Nullable<Number> share(const std::optional<double>& of_time) {
  return of_time ? Nullable<Number>(*of_time) : std::nullopt;
}
Nullable<Number> complement(const std::optional<double>& of_time) {
  return of_time ? Nullable<Number>(1 - *of_time) : std::nullopt;
}

KernelRuns runs_of(const KernelFigures& one) {
  KernelRuns runs;
  runs.name = one.name;
  runs.count = one.count;
  runs.total_seconds = seconds(one.total);
  runs.mean_seconds = seconds(one.total) / static_cast<double>(one.count);
  runs.min_seconds = seconds(one.least);
  runs.max_seconds = seconds(one.most);
  return runs;
}

std::vector<KernelRuns> kernels_of(const RegionFigures& figures) {
  std::vector<KernelRuns> list;
  for (const KernelFigures& kernel : figures.top) {
    list.push_back(runs_of(kernel));
    list.back().share =
        Number(static_cast<double>(kernel.total) / static_cast<double>(figures.kernel_time));
  }
  return list;
}

std::vector<KernelRuns> calls_of(const RegionFigures& figures) {
  std::vector<KernelRuns> list;
  for (const KernelFigures& call : figures.calls) list.push_back(runs_of(call));
  return list;
}

std::vector<Number> seconds_of(const std::vector<int64_t>& ns) {
  std::vector<Number> list;
  for (const int64_t value : ns) list.emplace_back(seconds(value));
  return list;
}

/// Returns value * factor as text, such as "12.3"; "-" for null.
std::string cell(const Nullable<Number>& value, double factor, int digits) {
  return value ? fmt::format("{:.{}f}", *value * factor, digits) : "-";
}
template <class T>
std::string cell(const Optional<T>& value, double factor, int digits) {
  const auto* there = known(value);
  return cell(there == nullptr ? std::nullopt : Nullable<Number>(*there), factor, digits);
}

/// Returns the milliseconds of a lap without the collector; "-" if there was none.
std::string undisturbed_cell(const ProfiledRegion& region) {
  const std::vector<Number>* laps = known(region.undisturbed_seconds);
  if (laps == nullptr || laps->empty()) return "-";
  return fmt::format("{:.2f}",
                     1e3 * spread_of(std::vector<double>(laps->begin(), laps->end())).mean);
}

/// Returns "93.1 [92.8, 93.4]", or "93.1" for one lap. For a session without laps of its own,
/// returns "93.1 collected".
std::string busy_cell(const ProfiledRegion& region, int64_t laps, double excess) {
  const auto busy = busy_within(region, laps, excess);
  if (!busy) {
    const std::string share = region.busy ? "-" : cell(region.gpu_busy, 100, 1);
    return share == "-" ? share : share + " collected";
  }
  std::string text = fmt::format("{:.1f}", 100 * busy->share);
  if (busy->low && busy->high)
    text += fmt::format(" [{:.1f}, {:.1f}]", 100 * *busy->low, 100 * *busy->high);
  return text;
}

double wall_of(const ProfiledRegion& region) { return region.wall_seconds.value_or(0); }

/// All values are means over laps, except busy shares and the mean length of a kernel.
void print_gpu_rows(const Regions& regions, int64_t laps, double excess) {
  fmt::print("  {:<16} {:>9} {:>20} {:>12} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}\n", "region",
             "ms", "busy %", "collected ms", "kernels", "us each", "in graph", "launches", "graphs",
             "copies", "waits");
  for (const std::string& name : ordered_regions(regions)) {
    const ProfiledRegion& r = regions.at(name);
    const auto count = [&](const Optional<Nullable<int64_t>>& of_laps) {
      return cell(of_laps, 1.0 / static_cast<double>(laps), 0);
    };
    fmt::print("  {:<16} {:>9} {:>20} {:>12} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}\n", name,
               undisturbed_cell(r), busy_cell(r, laps, excess),
               fmt::format("{:.2f}", wall_of(r) * 1e3 / static_cast<double>(laps)),
               count(r.kernels), cell(r.kernel_mean_seconds, 1e6, 2), count(r.graph_kernels),
               count(r.launches), count(r.graph_launches), count(r.copies),
               count(r.synchronizations));
  }
}

void print_wall_rows(const Regions& regions, double laps) {
  double total = 0;
  for (const auto& [name, region] : regions) {
    if (name.find('.') == name.npos) total += wall_of(region);
  }
  fmt::print("  {:<16} {:>9} {:>8}\n", "region", "wall ms", "of all %");
  for (const std::string& name : ordered_regions(regions)) {
    const double wall = wall_of(regions.at(name));
    fmt::print("  {:<16} {:>9.2f} {:>8.1f}\n", name, wall * 1e3 / laps,
               total > 0 ? 100 * wall / total : 0.0);
  }
}

/// Values are means over laps.
void print_segments(const record::Profile& profile, int64_t laps) {
  if (!profile.segments || profile.segments->empty()) return;
  fmt::print("  {:<24} {:>8} {:>8} {:>9}\n", "launched by", "kernels", "us each", "ms");
  for (const KernelRuns& one : *profile.segments) {
    const auto of_a_lap = [&](double all) { return all / static_cast<double>(laps); };
    fmt::print("  {:<24} {:>8.0f} {:>8.2f} {:>9.2f}\n", one.name,
               of_a_lap(static_cast<double>(one.count)), one.mean_seconds * 1e6,
               of_a_lap(one.total_seconds * 1e3));
  }
}

/// Prints the runs that the region `decode` lists.
void print_runs(const Optional<Nullable<std::vector<KernelRuns>>>& list, const char* title) {
  const std::vector<KernelRuns>* runs = known(list);
  if (runs == nullptr || runs->empty()) return;
  fmt::print("  {:<50} {:>9} {:>9} {:>9} {:>6}\n", title, "count", "total ms", "mean us", "of %");
  for (const KernelRuns& run : *runs) {
    const std::string name = run.name.size() > 48 ? run.name.substr(0, 45) + "..." : run.name;
    fmt::print("    {:<48} {:>9} {:>9.3f} {:>9.2f} {:>6}\n", name, run.count,
               run.total_seconds * 1e3, run.mean_seconds * 1e6,
               cell(run.share ? Nullable<Number>(*run.share) : std::nullopt, 100, 1));
  }
}

void print_case(const record::Profile& profile, double excess) {
  const int64_t laps = profile.laps.value_or(1);
  fmt::print("\n{} on {}, {}{}\n", printable(profile.case_name), profile.device,
             laps == 1 ? "one lap" : fmt::format("means of {} laps", laps),
             profile.valid.value_or(true) ? "" : "  INVALID");
  const Regions regions = profile.regions ? Regions(*profile.regions) : Regions();
  known(profile.gpu_figures) != nullptr ? print_gpu_rows(regions, laps, excess)
                                        : print_wall_rows(regions, static_cast<double>(laps));
  print_segments(profile, laps);
  if (const auto decode = regions.find("decode"); decode != regions.end()) {
    print_runs(decode->second.top_kernels, "kernels of decode by total time of all laps");
    print_runs(decode->second.top_calls, "CUDA calls of decode, likewise");
  }
  if (!profile.remarks) return;
  for (const std::string& remark : *profile.remarks) fmt::print("  note: {}\n", printable(remark));
}

/// Returns the value, or null if `is_known` is false.
template <class T>
Nullable<T> where(bool is_known, T value) {
  return is_known ? Nullable<T>(std::move(value)) : std::nullopt;
}

}  // namespace

ProfiledRegion profiled_region(const RegionFigures& f, bool with_gpu, bool whole_graphs) {
  const bool busy = with_gpu && !f.graphs_unseen() && !(whole_graphs && f.graph_launches > 0);
  const auto busy_share = [&](const Nullable<Number>& value) {
    return busy ? value : std::nullopt;
  };
  const auto gpu_seconds = [&](int64_t ns) { return where(with_gpu, Number(seconds(ns))); };
  ProfiledRegion region;
  region.wall_seconds = Number(seconds(f.wall));
  region.gpu_busy = busy_share(share(f.busy_share()));
  region.gpu_idle = busy_share(complement(f.busy_share()));
  region.gpu_busy_with_copies = busy_share(share(f.busy_copies_share()));
  region.gpu_idle_with_copies = busy_share(complement(f.busy_copies_share()));
  region.gpu_starved = busy_share(complement(f.occupied_share()));
  region.gpu_idle_launch = with_gpu ? share(f.idle_launch) : std::nullopt;
  region.kernels = where(with_gpu, f.kernels);
  region.graph_kernels = where(with_gpu, f.graph_kernels);
  region.kernel_seconds = gpu_seconds(f.kernel_time);
  region.kernel_mean_seconds =
      with_gpu && f.kernel_mean() ? Nullable<Number>(*f.kernel_mean() * 1e-9) : std::nullopt;
  region.launches = where(with_gpu, f.launches);
  region.graph_launches = where(with_gpu, f.graph_launches);
  region.copies = where(with_gpu, f.copies);
  region.copied_bytes = where(with_gpu, static_cast<int64_t>(f.copied_bytes));
  region.synchronizations = where(with_gpu, f.synchronizations);
  region.synchronization_seconds = gpu_seconds(f.synchronization_time);
  region.longest_gap_seconds = where(busy, Number(seconds(f.longest_gap)));
  region.top_kernels = where(with_gpu, kernels_of(f));
  region.top_calls = where(with_gpu, calls_of(f));
  return region;
}

Regions profiled_regions(const std::vector<LoggedRange>& ranges, const std::vector<Span>& laps,
                         const Activity& activity, const FigureOptions& options,
                         std::vector<std::string>& remarks) {
  Regions regions;
  const std::vector<Span> waits = spans_named(ranges, info_of(RangeName::wait).name);
  for (const std::string& name : range_names(ranges)) {
    const std::vector<Span> spans = spans_named(ranges, name);
    const RegionFigures figures = region_figures(activity, spans, waits, options.top);
    const bool whole_graphs = options.whole_graphs && figures.graph_launches > 0;
    ProfiledRegion& region = regions[name] =
        profiled_region(figures, options.with_gpu, whole_graphs);
    const bool is_known = options.with_gpu && !figures.graphs_unseen() && !whole_graphs;
    region.lap_seconds = seconds_of(sums_by_lap(spans, laps));
    region.lap_kernel_seconds = is_known ? Nullable<std::vector<Number>>(seconds_of(sums_by_lap(
                                               merged(kernels_in(activity, spans)), laps)))
                                         : std::nullopt;
    if (options.with_gpu && whole_graphs) {
      remarks.push_back(
          fmt::format("{}: a CUDA graph was recorded as a whole, so that the time of its kernels "
                      "is not known: no busy share (--graph-trace node tells)",
                      name));
    }
    if (options.with_gpu && figures.graphs_unseen()) {
      remarks.push_back(
          fmt::format("{}: {} graph launches, but no kernel of a graph is on record; "
                      "how long the GPU was busy is not known",
                      name, figures.graph_launches));
    }
  }
  return regions;
}

std::vector<KernelRuns> profiled_segments(const std::vector<LoggedRange>& segments,
                                          const Activity& activity) {
  std::vector<KernelRuns> list;
  for (const KernelFigures& one : kernels_by_range(activity, segments))
    list.push_back(runs_of(one));
  return list;
}

std::vector<std::string> ordered_regions(const Regions& regions) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();
    if (regions.contains(name) && !listed) names.push_back(name);
  };
  for (const std::string region : kRegionNames) {
    add(region);
    for (const char* phase : {".project", ".init", ".loop"}) add(region + phase);
    for (const auto& [name, figures] : regions) {
      if (name.starts_with(region + ".")) add(name);
    }
  }
  for (const auto& [name, figures] : regions) add(name);
  return names;
}

void print_profile(const record::Records& records) {
  std::vector<record::Profile> profiles;
  for (const record::Any& record : records) {
    if (const auto* profile = std::get_if<record::Profile>(&record)) profiles.push_back(*profile);
  }
  bool with_gpu = false;
  const double excess = kernel_excess(profiles);
  for (const record::Any& record : records) {
    if (const auto* profile = std::get_if<record::Profile>(&record)) {
      print_case(*profile, excess);
      with_gpu = with_gpu || known(profile->gpu_figures) != nullptr;
    } else if (const auto* failure = std::get_if<record::Failure>(&record)) {
      fmt::print("\n{} FAILED: {}: {}\n", printable(failure->case_name), failure->stage,
                 printable(failure->message));
    }
  }
  if (!with_gpu) return;
  fmt::print(
      "\nms: without the collector. busy: the time in which a kernel runs, by the collector's\n"
      "clock for each kernel, / ms; the rest of the time none does. [95 % interval of the spread\n"
      "over laps, its lower end further down by {:.2f} us for each kernel, by which the collector\n"
      "makes one longer at least.] collected ms: with the collector, which slows down every "
      "launch\n"
      "and pulls the kernels of a CUDA graph apart; the counts are of these laps.\n",
      1e6 * excess);
}

}  // namespace rtfx
