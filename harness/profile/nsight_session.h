// Sessions of Nsight Systems: their figures (`rtfx profile import`), and recording one (`rtfx
// profile --nsys`).
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
  int64_t top = 5;               // kernels listed of each region
  int64_t trace_limit = 200000;  // events in trace.json; 0: no such file
  /// Records of the process that was recorded, where they are at hand: what they say of a case goes
  /// before what its name says, and theirs is the provenance.
  record::Records recorded = {};
  std::vector<record::Profile> undisturbed = {};  // as of undisturbed_laps()
};

/// Reads what `nsys export --type sqlite` makes of a session; writes <output>/profile.jsonl (an
/// earlier one is kept as profile.jsonl.N) and <output>/trace.json, prints a table. The figures are
/// those of `rtfx profile` by the same definitions: of the laps with the collector, which here is
/// Nsight Systems. A session without a round of a case is left out with a notice, if another one
/// has some or `recorded` has failures. Returns an ExitCode. Throws UserError before anything is
/// written.
int import_nsight_sessions(const std::vector<std::filesystem::path>& files,
                           const NsightImport& options);

/// The program nsys: on PATH, of a CUDA toolkit, or in the folders where Nsight Systems and Nsight
/// Compute are installed, the newest first. Empty where there is none.
std::filesystem::path find_nsys();

/// Arguments of `nsys`: record this program's own `profile`. With a GPU, of each case only its
/// laps, a report for each; without, the whole of it. Reports are named `report`, which has no
/// ending.
std::vector<std::string> nsys_arguments(const Config& config, const ProfileOptions& options,
                                        bool with_gpu, const std::filesystem::path& report);

/// Records the configuration's cases, and prints table and files as `rtfx profile` does, with the
/// figures of the session. Reports are <output>/nsys*; none is overwritten. Returns an ExitCode.
/// Throws UserError where there is no nsys, with the command for a machine that has one.
int record_nsys_session(const Config& config, const ProfileOptions& options);

}  // namespace rtfx
