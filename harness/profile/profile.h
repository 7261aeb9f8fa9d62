// `rtfx profile`: shows for each region where the GPU waits, and writes a timeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/config/plan.h"
#include "harness/profile/cupti_collector.h"

namespace rtfx {

struct ProfileOptions {
  /// A lap is a measured round: one pass over the dataset. As many run without a collector.
  int64_t laps = 3;
  int64_t top = 5;               // number of kernels to list for each region
  int64_t trace_limit = 200000;  // events in trace.json; 0: no such file
  std::string only;              // only cases with this in their name
  bool whole_name = false;       // `only` is the whole name of a case
  bool cupti = true;             // collects GPU figures in this process
  GraphTrace graphs = GraphTrace::node;
  /// This is a child process of profile(), which times laps without a collector.
  bool undisturbed = false;
  bool recorded = false;  // This is a child process of nsys, which collects.
};

/// The advice of an error that ends the program during a case.
constexpr const char* kLeaveOut = "the records of the cases before are kept; --only chooses others";

/// Returns the plan with each case in a group of its own, since decoders that share encoder passes
/// cannot be told apart on a timeline. Returns only the cases with `only` in their names, or with
/// `whole_name` the case of that name. Throws UserError if there is none.
std::vector<CaseGroup> single_cases(const std::vector<CaseGroup>& plan, const std::string& only,
                                    bool whole_name = false);

/// Throws the errors of the plan and of single_cases() before a child process or a file is made.
/// Reads the checkpoints for this. Does nothing if `only` is empty.
void require_case(const Config& config, const std::string& only, bool whole_name = false);

/// Returns the configuration for a profile: without sync_debug, and region by region. Notices on
/// stderr name the changes. Throws UserError if `command` cannot know the size of a batch.
Config profiled_config(const Config& given, const std::string& command);

/// Runs each case of the configuration by itself: one warm-up round and then the laps. If GPU
/// figures are collected, a child process that collects nothing runs them first. The busy share is
/// the time with a kernel divided by the time in the child process.
///
/// Writes <output>/profile.jsonl (an earlier file is kept as profile.jsonl.N) and
/// <output>/trace.json. Prints a table to stdout and notices to stderr. If another profiler is to
/// collect, it calls cudaProfilerStart and cudaProfilerStop around the laps of a case.
///
/// Must be called before anything uses CUDA. Returns an ExitCode: kFailed if a case failed or CUPTI
/// lost records. Throws UserError for errors that stop the whole profile.
int profile(const Config& config, const ProfileOptions& options);

}  // namespace rtfx
