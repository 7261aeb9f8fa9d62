// `rtfx profile`: where the GPU waits, region by region, and a timeline of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/config/plan.h"
#include "harness/profile/cupti_collector.h"

namespace rtfx {

struct ProfileOptions {
  int64_t laps = 3;              // passes over the dataset that are recorded, and as many without
  int64_t top = 5;               // kernels listed of each region
  int64_t trace_limit = 200000;  // events in trace.json; 0: no such file
  std::string only;              // only cases with this in their name
  bool whole_name = false;       // `only` is the whole name of a case
  bool cupti = true;             // collect GPU figures ourselves
  GraphTrace graphs = GraphTrace::node;
  bool undisturbed = false;  // a child process of profile(): times laps without a collector
  bool recorded = false;     // a child process of nsys, which collects
};

/// The advice of errors where a case ends the program.
constexpr const char* kLeaveOut = "the records of the cases before are kept; --only chooses others";

/// Each case for itself: decoders that share encoder passes could not be told apart on a timeline.
/// Those with `only` in their names, or with that name; none is a UserError.
std::vector<CaseGroup> single_cases(const std::vector<CaseGroup>& plan, const std::string& only,
                                    bool whole_name = false);

/// Throws the errors of the plan and that of single_cases() before a child process or a file is
/// made. Reads the checkpoints, so it does nothing where `only` is empty.
void require_case(const Config& config, const std::string& only, bool whole_name = false);

/// The configuration as profiles take it: without sync_debug, region by region. Notices on stderr
/// name what is changed. Throws UserError where `command` cannot know the size of a batch.
Config profiled_config(const Config& given, const std::string& command);

/// Runs every case of the configuration for itself, one warm-up round and then the laps. Where GPU
/// figures are collected, it first runs them in a process that collects nothing. The busy share is
/// the time with a kernel divided by that process's time. Writes <output>/profile.jsonl (an earlier
/// one is kept as profile.jsonl.N) and <output>/trace.json, prints a table to stdout and notices to
/// stderr. Around the laps of a case it calls cudaProfilerStart and cudaProfilerStop if another
/// profiler is to collect. Returns an ExitCode: kFailed if a case failed or CUPTI lost records.
/// Call it before anything uses CUDA. Throws UserError for what stops all of it.
int profile(const Config& config, const ProfileOptions& options);

}  // namespace rtfx
