// Profiles made by processes of their own: this program again, without its collector, or another
// one that runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/records.h"

namespace rtfx {

/// `profile CONFIG --laps N` with the overrides that this process got, without the program's name.
/// `only`: as in ProfileOptions.
std::vector<std::string> profile_arguments(const Config& config, int64_t laps,
                                           const std::string& only);

/// Runs `program` (a path) and waits; what it prints goes to standard error. Its exit code; -1
/// where it could not be started or came to no end of its own.
int run_program(const std::string& program, std::vector<std::string> arguments);

/// This program's file.
std::string own_program();

/// File of the child's records in the configuration's output folder, while it runs.
constexpr const char* kUndisturbed = "undisturbed.jsonl";
/// Records of a process that Nsight Systems records (nsight_session.h).
constexpr const char* kRecorded = "recorded.jsonl";

/// Runs laps without the collector in a process of their own: CUPTI cannot be left out again once
/// it has been loaded, and slows down every launch. Returns records of kind "profile" of this
/// program's own `profile --undisturbed`. Empty where the child
/// fails; `problem` then says so in a line.
std::vector<record::Profile> undisturbed_laps(const Config& config, int64_t laps,
                                              const std::string& only, std::string& problem);

/// Adds to each region of `profile` its times in the case's record of `undisturbed`
/// ("undisturbed_seconds", by lap), and "busy": {"share", "low", "high"}. That is the share of the
/// time in which a kernel runs ("lap_kernel_seconds"), with the 95 % interval over laps. Null where
/// either is unknown. Returns whether `undisturbed` has a record of the case.
bool add_busy(record::Profile& profile, const std::vector<record::Profile>& undisturbed);

/// The least number of seconds by which the collector lengthens a kernel. Where kernels would fill
/// more than all of a region's time, each must be too long by its share of the excess. The largest
/// share of the regions with 1,000 kernels a lap or more is returned. It is about 0.3 us on an H200
/// when every kernel of a CUDA graph is recorded.
double kernel_excess(const std::vector<record::Profile>& profiles);

/// A region's "busy", its lower end moved by what its kernels may be too long, and none above 1;
/// null where it is not known.
Nullable<record::BusyShare> busy_within(const record::ProfiledRegion& region, int64_t laps,
                                        double excess);

}  // namespace rtfx
