// Laps of a profile without its collector, in a process of their own: CUPTI cannot be left out
// again once it has been loaded, and slows down every launch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

/// File of the child's records in the configuration's output folder, while it runs.
constexpr const char* kUndisturbed = "undisturbed.jsonl";
/// Records of a process that Nsight Systems records (nsys_session.h).
constexpr const char* kRecorded = "recorded.jsonl";

/// Records of kind "profile" of this program's own `profile --undisturbed`. Empty where the child
/// fails; `problem` then says so in a line.
std::vector<nlohmann::json> undisturbed_laps(const Config& config, int64_t laps,
                                             const std::string& only, std::string& problem);

/// Adds to each region of `record` its times in the case's record of `undisturbed`
/// ("undisturbed_seconds", by lap), and "busy": {"share", "low", "high"}. That is the share of the
/// time in which a kernel runs ("lap_kernel_seconds"), with the 95 % interval over laps. Null where
/// either is unknown.
void add_busy(nlohmann::json& record, const std::vector<nlohmann::json>& undisturbed);

/// The least number of seconds by which the collector lengthens a kernel. Where kernels would fill
/// more than all of a region's time, each must be too long by its share of the excess; the largest
/// share of all regions is returned. It is about 0.3 us on an H200 when every kernel of a CUDA
/// graph is recorded.
double kernel_excess(const std::vector<nlohmann::json>& records);

/// A region's "busy", its lower end moved by what its kernels may be too long, and none above 1;
/// null where it is not known.
nlohmann::json busy_within(const nlohmann::json& region, int64_t laps, double excess);

}  // namespace rtfx
