#include "harness/profile/profile_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "harness/profile/child_process.h"
#include "harness/results/statistics.h"
#include "speech/pipeline/pipeline.h"

namespace rtfx {
namespace {

using nlohmann::json;

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

json share_json(const std::optional<double>& share, bool complement) {
  if (!share) return nullptr;
  return complement ? 1 - *share : *share;
}

json run_json(const KernelFigures& one) {
  return {{"name", one.name},
          {"count", one.count},
          {"total_seconds", seconds(one.total)},
          {"mean_seconds", seconds(one.total) / static_cast<double>(one.count)},
          {"min_seconds", seconds(one.least)},
          {"max_seconds", seconds(one.most)}};
}

json kernels_json(const RegionFigures& figures) {
  json list = json::array();
  for (const KernelFigures& kernel : figures.top) {
    list.push_back(run_json(kernel));
    list.back()["share"] =
        static_cast<double>(kernel.total) / static_cast<double>(figures.kernel_time);
  }
  return list;
}

json calls_json(const RegionFigures& figures) {
  json list = json::array();
  for (const KernelFigures& call : figures.calls) list.push_back(run_json(call));
  return list;
}

json seconds_json(const std::vector<int64_t>& ns) {
  json list = json::array();
  for (const int64_t value : ns) list.push_back(seconds(value));
  return list;
}

/// "12.3" of field * factor, "-" for null.
std::string cell(const json& region, const char* field, double factor, int digits) {
  const json value = region.value(field, json());
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>() * factor, digits) : "-";
}

/// Milliseconds of a lap without the collector, "-" where there was none.
std::string undisturbed_cell(const json& region) {
  const json laps = region.value("undisturbed_seconds", json());
  if (!laps.is_array() || laps.empty()) return "-";
  return fmt::format("{:.2f}", 1e3 * summarize(laps.get<std::vector<double>>()).mean);
}

/// "93.1 [92.8, 93.4]", or "93.1" from one lap; of a session without laps of its own, "93.1
/// collected".
std::string busy_cell(const json& region, int64_t laps, double excess) {
  const json busy = busy_within(region, laps, excess);
  if (!busy.is_object()) {
    const std::string share = region.contains("busy") ? "-" : cell(region, "gpu.busy", 100, 1);
    return share == "-" ? share : share + " collected";
  }
  std::string text = fmt::format("{:.1f}", 100 * busy["share"].get<double>());
  if (busy["low"].is_number() && busy["high"].is_number())
    text += fmt::format(" [{:.1f}, {:.1f}]", 100 * busy["low"].get<double>(),
                        100 * busy["high"].get<double>());
  return text;
}

/// All but busy shares and the mean length of a kernel are means of a lap.
void print_gpu_rows(const json& regions, int64_t laps, double excess) {
  fmt::print("  {:<16} {:>9} {:>20} {:>12} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}\n", "region",
             "ms", "busy %", "collected ms", "kernels", "us each", "in graph", "launches", "graphs",
             "copies", "waits");
  for (const std::string& name : ordered_regions(regions)) {
    const json& r = regions[name];
    const auto count = [&](const char* field) {
      return cell(r, field, 1.0 / static_cast<double>(laps), 0);
    };
    fmt::print("  {:<16} {:>9} {:>20} {:>12} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}\n", name,
               undisturbed_cell(r), busy_cell(r, laps, excess),
               cell(r, "wall_seconds", 1e3 / static_cast<double>(laps), 2), count("kernels"),
               cell(r, "kernel_mean_seconds", 1e6, 2), count("graph_kernels"), count("launches"),
               count("graph_launches"), count("copies"), count("synchronizations"));
  }
}

void print_wall_rows(const json& regions, double laps) {
  double total = 0;
  for (const auto& [name, region] : regions.items()) {
    if (name.find('.') == name.npos) total += region["wall_seconds"].get<double>();
  }
  fmt::print("  {:<16} {:>9} {:>8}\n", "region", "wall ms", "of all %");
  for (const std::string& name : ordered_regions(regions)) {
    const double wall = regions[name]["wall_seconds"];
    fmt::print("  {:<16} {:>9.2f} {:>8.1f}\n", name, wall * 1e3 / laps,
               total > 0 ? 100 * wall / total : 0.0);
  }
}

/// Means of a lap.
void print_segments(const json& record, int64_t laps) {
  const json segments = record.value("segments", json());
  if (!segments.is_array() || segments.empty()) return;
  fmt::print("  {:<24} {:>8} {:>8} {:>9}\n", "launched by", "kernels", "us each", "ms");
  for (const json& one : segments) {
    fmt::print("  {:<24} {:>8} {:>8} {:>9}\n", one["name"].get<std::string>(),
               cell(one, "count", 1.0 / static_cast<double>(laps), 0),
               cell(one, "mean_seconds", 1e6, 2),
               cell(one, "total_seconds", 1e3 / static_cast<double>(laps), 2));
  }
}

/// `list`: "top_kernels" or "top_calls" of the decode region.
void print_runs(const json& regions, const char* list, const char* title) {
  const json runs = regions.value("decode", json::object()).value(list, json());
  if (!runs.is_array() || runs.empty()) return;
  fmt::print("  {:<50} {:>9} {:>9} {:>9} {:>6}\n", title, "count", "total ms", "mean us", "of %");
  for (const json& run : runs) {
    std::string name = run["name"];
    if (name.size() > 48) name = name.substr(0, 45) + "...";
    fmt::print("    {:<48} {:>9} {:>9.3f} {:>9.2f} {:>6}\n", name, run["count"].get<int64_t>(),
               run["total_seconds"].get<double>() * 1e3, run["mean_seconds"].get<double>() * 1e6,
               cell(run, "share", 100, 1));
  }
}

void print_case(const json& record, double excess) {
  const auto laps = record["laps"].get<int64_t>();
  fmt::print("\n{} on {}, {}{}\n", printable(record["case"].get<std::string>()),
             record["device"].get<std::string>(),
             laps == 1 ? "one lap" : fmt::format("means of {} laps", laps),
             record["valid"].get<bool>() ? "" : "  INVALID");
  const json& regions = record["regions"];
  const bool with_gpu = record["gpu_figures"].is_string();
  with_gpu ? print_gpu_rows(regions, laps, excess)
           : print_wall_rows(regions, static_cast<double>(laps));
  print_segments(record, laps);
  print_runs(regions, "top_kernels", "kernels of decode by total time of all laps");
  print_runs(regions, "top_calls", "CUDA calls of decode, likewise");
  for (const json& remark : record["remarks"])
    fmt::print("  note: {}\n", printable(remark.get<std::string>()));
}

}  // namespace

json region_json(const RegionFigures& f, bool with_gpu, bool whole_graphs) {
  const bool busy_known = with_gpu && !f.graphs_unseen() && !(whole_graphs && f.graph_launches > 0);
  const auto gpu = [&](json value) { return with_gpu ? std::move(value) : json(); };
  const auto busy = [&](json value) { return busy_known ? std::move(value) : json(); };
  return {{"wall_seconds", seconds(f.wall)},
          {"gpu.busy", busy(share_json(f.busy_share(), false))},
          {"gpu.idle", busy(share_json(f.busy_share(), true))},
          {"gpu.busy_with_copies", busy(share_json(f.busy_copies_share(), false))},
          {"gpu.idle_with_copies", busy(share_json(f.busy_copies_share(), true))},
          {"gpu.starved", busy(share_json(f.occupied_share(), true))},
          {"gpu.idle_launch", gpu(share_json(f.idle_launch, false))},
          {"kernels", gpu(f.kernels)},
          {"graph_kernels", gpu(f.graph_kernels)},
          {"kernel_seconds", gpu(seconds(f.kernel_time))},
          {"kernel_mean_seconds", f.kernel_mean() ? gpu(*f.kernel_mean() * 1e-9) : json()},
          {"launches", gpu(f.launches)},
          {"graph_launches", gpu(f.graph_launches)},
          {"copies", gpu(f.copies)},
          {"copied_bytes", gpu(f.copied_bytes)},
          {"synchronizations", gpu(f.synchronizations)},
          {"synchronization_seconds", gpu(seconds(f.synchronization_time))},
          {"longest_gap_seconds", busy(seconds(f.longest_gap))},
          {"top_kernels", gpu(kernels_json(f))},
          {"top_calls", gpu(calls_json(f))}};
}

json regions_json(const std::vector<LoggedRange>& ranges, const std::vector<Span>& laps,
                  const Activity& activity, const FigureOptions& options, json& remarks) {
  json regions = json::object();
  const std::vector<Span> waits = spans_named(ranges, word_of(RangeName::wait).name);
  for (const std::string& name : range_names(ranges)) {
    const std::vector<Span> spans = spans_named(ranges, name);
    const RegionFigures figures = region_figures(activity, spans, waits, options.top);
    const bool whole_graphs = options.whole_graphs && figures.graph_launches > 0;
    json& region = regions[name] = region_json(figures, options.with_gpu, whole_graphs);
    const bool known = options.with_gpu && !figures.graphs_unseen() && !whole_graphs;
    region["lap_seconds"] = seconds_json(sums_by_lap(spans, laps));
    region["lap_kernel_seconds"] =
        known ? seconds_json(sums_by_lap(merged(kernels_in(activity, spans)), laps)) : json();
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

json segments_json(const std::vector<LoggedRange>& segments, const Activity& activity) {
  json list = json::array();
  for (const KernelFigures& one : kernels_by_range(activity, segments))
    list.push_back(run_json(one));
  return list;
}

std::vector<std::string> ordered_regions(const json& regions) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();
    if (regions.contains(name) && !listed) names.push_back(name);
  };
  for (const std::string region : kRegionNames) {
    add(region);
    for (const char* phase : {".project", ".init", ".loop"}) add(region + phase);
    for (const auto& [name, figures] : regions.items()) {
      if (name.starts_with(region + ".")) add(name);
    }
  }
  for (const auto& [name, figures] : regions.items()) add(name);
  return names;
}

void print_profile(const std::vector<json>& records) {
  bool with_gpu = false;
  const double excess = kernel_excess(records);
  for (const json& record : records) {
    if (record.value("kind", "") == "profile") {
      print_case(record, excess);
      with_gpu = with_gpu || record["gpu_figures"].is_string();
    } else if (record.value("kind", "") == "failure") {
      fmt::print("\n{} FAILED: {}: {}\n", printable(record["case"].get<std::string>()),
                 record["stage"].get<std::string>(),
                 printable(record["message"].get<std::string>()));
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
