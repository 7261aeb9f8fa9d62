// Profiles that are made by child processes: this program without its collector, or another program
// that runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/records.h"

namespace rtfx {

/// Returns `profile CONFIG --laps N` with the overrides of this process, without the program's
/// name. `only` has the meaning of ProfileOptions::only.
std::vector<std::string> profile_arguments(const Config& config, int64_t laps,
                                           const std::string& only);

/// The file of the child's records in the configuration's output folder, while the child runs.
constexpr const char* kUndisturbed = "undisturbed.jsonl";
/// The file of a process that Nsight Systems records (nsight_session.h).
constexpr const char* kRecorded = "recorded.jsonl";

/// Runs laps without the collector in a child process (`profile --undisturbed`), and returns its
/// records of kind "profile". CUPTI cannot be unloaded, and slows down every launch. Returns an
/// empty list if the child fails; `problem` then says why in one line.
std::vector<record::Profile> undisturbed_laps(const Config& config, int64_t laps,
                                              const std::string& only, std::string& problem);

/// Adds two fields to each region of `profile` from the case's record of `undisturbed`.
/// "undisturbed_seconds" holds the region's times by lap. "busy": {"share", "low", "high"} is the
/// share of the time in which a kernel runs ("lap_kernel_seconds"), with the 95 % interval over
/// laps. A field is null if its value is unknown. Returns whether `undisturbed` has a record of the
/// case.
bool add_busy(record::Profile& profile, const std::vector<record::Profile>& undisturbed);

/// Returns a lower bound of the seconds by which the collector lengthens each kernel. If kernels
/// fill more than the whole time of a region, each must be too long by its share of the excess.
/// Returns the largest such share among the regions with 1,000 kernels a lap or more. It is about
/// 0.3 us on an H200 when every kernel of a CUDA graph is recorded.
double kernel_excess(const std::vector<record::Profile>& profiles);

/// Returns the "busy" of a region after a correction: the lower end is reduced by the possible
/// excess of its kernels, and no value is above 1. Null if it is not known.
Nullable<record::BusyShare> busy_within(const record::ProfiledRegion& region, int64_t laps,
                                        double excess);

}  // namespace rtfx
