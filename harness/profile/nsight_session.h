// Sessions of Nsight Systems: `rtfx profile import` reads their figures, and `rtfx profile --nsys`
// records one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/profile/profile.h"
#include "harness/results/records.h"

namespace rtfx {

/// Options of `rtfx profile import`.
struct NsightImport {
  std::filesystem::path output;  // folder of profile.jsonl and trace.json
  int64_t top = 5;               // number of kernels to list for each region
  int64_t trace_limit = 200000;  // events in trace.json; 0: no such file
  /// Records of the recorded process, if there are any. They take precedence over facts from a
  /// case's name, and their provenance is used.
  record::Records recorded = {};
  std::vector<record::Profile> undisturbed = {};  // from undisturbed_laps()
};

/// Reads the files that `nsys export --type sqlite` makes from a session. Writes
/// <output>/profile.jsonl (an earlier file is kept as profile.jsonl.N) and <output>/trace.json, and
/// prints a table. The figures have the definitions of `rtfx profile`, with Nsight Systems as the
/// collector. A session without a round of a case is left out with a notice, if another session has
/// one or `recorded` has failures. Returns an ExitCode. Throws UserError before it writes anything.
int import_nsight_sessions(const std::vector<std::filesystem::path>& files,
                           const NsightImport& options);

/// Returns the program nsys. Looks on PATH, in CUDA toolkits, and in the folders of Nsight Systems
/// and Nsight Compute, the newest first. Empty if there is none.
std::filesystem::path find_nsys();

/// Returns the arguments with which `nsys` records this program's own `profile`. With a GPU, it
/// records only the laps, with a report for each case. Without a GPU, it records the whole process.
/// `report` is the name of the reports without an ending.
std::vector<std::string> nsys_arguments(const Config& config, const ProfileOptions& options,
                                        bool with_gpu, const std::filesystem::path& report);

/// Records the configuration's cases. Prints the table and writes the files that `rtfx profile`
/// does, with figures from the session. The reports are <output>/nsys*, and none is overwritten.
/// Returns an ExitCode. Throws UserError if there is no nsys, with the command for a machine that
/// has one.
int record_nsys_session(const Config& config, const ProfileOptions& options);

}  // namespace rtfx
