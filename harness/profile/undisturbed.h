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
/// The same of a process that Nsight Systems records (nsys_session.h).
constexpr const char* kRecorded = "recorded.jsonl";

/// Records of kind "profile" of this program's own `profile --undisturbed`. Empty where the child
/// fails; `problem` then says so in a line.
std::vector<nlohmann::json> undisturbed_laps(const Config& config, int64_t laps,
                                             const std::string& only, std::string& problem);

/// Adds to each region of `record` what the case's record in `undisturbed` says of it
/// ("undisturbed_seconds", by lap), and with it "busy": {"share", "low", "high"}, of the time in
/// which a kernel runs ("lap_kernel_seconds"), with the 95 % interval of the spread over laps. Null
/// where either is not known.
void add_busy(nlohmann::json& record, const std::vector<nlohmann::json>& undisturbed);

/// By how many seconds the collector makes a kernel longer, at least: where kernels would fill more
/// than all of a region's time, what is too much for each of them; the most of all regions of the
/// records. With every kernel of a CUDA graph on record it is some 0.3 us on an H200.
double kernel_excess(const std::vector<nlohmann::json>& records);

/// A region's "busy", its lower end moved by what its kernels may be too long, and none above 1;
/// null where it is not known.
nlohmann::json busy_within(const nlohmann::json& region, int64_t laps, double excess);

}  // namespace rtfx
